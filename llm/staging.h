// Small tensors that the host writes and a device reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "musaic/device.h"
#include "musaic/tensor.h"

namespace musaic::llm {

/// One memory on the host and one on the device, brought over by one copy. On the CPU the two are the same.
class Staging {
 public:
  explicit Staging(Device device) : device_(device) {}

  /// Adds a tensor; returns its number. Before allocate().
  size_t add(DType dtype, const std::vector<int64_t>& shape);
  void allocate();

  template <class T>
  T* host(size_t field) const {
    return reinterpret_cast<T*>(host_.data_as<std::byte>() + fields_[field].offset);
  }
  /// The tensor on the device; what it holds was written to host() before the last upload().
  const Tensor& on_device(size_t field) const { return fields_[field].tensor; }
  /// Waits for the stream, so that the host may write again.
  void upload(Stream stream) const;
  int64_t bytes() const { return bytes_; }

 private:
  struct Field {
    DType dtype;
    std::vector<int64_t> shape;
    int64_t offset;
    Tensor tensor;
  };

  Device device_;
  std::vector<Field> fields_;
  OwnedTensor host_, memory_;  // uint8
  int64_t bytes_ = 0;
};

}  // namespace musaic::llm
