// Torch tensors as the library's views, and calls of its operators on them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>

#include <cstdint>
#include <string>
#include <vector>

#include "musaic/error.h"
#include "musaic/registry.h"

namespace musaic::torch_adapter {

/// A view of a tensor's memory. Throws Error for dtypes that the library has no name for and more than 8 dimensions.
/// `written`: the memory is about to be written, which ends a copy-on-write.
Tensor view_of(const at::Tensor& tensor, bool written, const char* where, const char* argument);

/// Runs a call on the device's current stream with that device current, and gives it scratch memory from torch's
/// allocator. Errors become Python's ValueError (a wrong argument) or RuntimeError.
void run(const OpInfo& op, const Value* values, c10::Device device);

/// Checks a call by shapes alone, as `run` would, on views that have no memory.
void check_only(const OpInfo& op, const Value* values);

/// Views of tensors without memory: tensors that share a storage overlap as they would.
class MemorylessViews {
 public:
  /// False if the shape is not known yet (symbolic), so that nothing can be checked.
  bool view_of(const at::Tensor& tensor, const char* where, const char* argument, Tensor* view);

 private:
  std::vector<const void*> storages_;
};

[[noreturn]] void raise(const Error& error);

}  // namespace musaic::torch_adapter
