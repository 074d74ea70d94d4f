// What the adapter has to ask a vendor's torch for, beyond c10's device-generic guards. One file a vendor fills it.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <optional>

#include "musaic/tensor.h"

namespace musaic::torch_adapter {

/// Random state of one call, as the operators take it: int64 tensors of one element on the device of the call.
struct RandomState {
  at::Tensor seed, offset;
};

struct Vendor {
  const char* name;
  /// What this device type of torch is to the library.
  DeviceType device;
  /// The stream as the operators take it.
  void* (*raw_stream)(const c10::Stream& stream);
  /// The Philox state of a generator (none: the device's default one), which moves on by one step. Safe in a graph
  /// where the vendor's generator is.
  RandomState (*random_state)(const std::optional<at::Generator>& generator, c10::Device device);
};

/// Called by a vendor's file before any call on that device type; the last one counts.
void set_vendor(c10::DeviceType type, const Vendor& vendor);
/// c10::Error if nobody serves the type.
const Vendor& vendor_of(c10::DeviceType type);

/// A state drawn on the host: for the CPU, and for generators of the CPU's kind.
RandomState host_random_state(const std::optional<at::Generator>& generator, c10::Device device);

}  // namespace musaic::torch_adapter
