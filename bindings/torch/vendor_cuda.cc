// NVIDIA's and AMD's torch: streams and Philox state.
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDAStream.h>

#include "bindings/torch/vendor.h"

namespace musaic::torch_adapter {
namespace {

RandomState random_state(const std::optional<at::Generator>& generator, c10::Device device) {
  auto* g = at::get_generator_or_default<at::CUDAGeneratorImpl>(
      generator, at::cuda::detail::getDefaultCUDAGenerator(device.index()));
  at::PhiloxCudaState state;
  {
    const std::lock_guard<std::mutex> lock(g->mutex_);
    state = g->philox_cuda_state(4);
  }
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  if (!state.captured_)
    return {at::full({1}, static_cast<std::int64_t>(state.seed_.val), options),
            at::full({1}, static_cast<std::int64_t>(state.offset_.val), options)};
  // In a graph the state is read on the device at every replay.
  const at::Tensor seed = at::from_blob(state.seed_.ptr, {1}, options);
  const at::Tensor offset = at::from_blob(state.offset_.ptr, {1}, options);
  return {seed, offset.add(static_cast<std::int64_t>(state.offset_intragraph_))};
}

// torch for AMD calls itself CUDA; the build says which of the two it is.
const Vendor kVendor{MUSAIC_TORCH_VENDOR, DeviceType::MUSAIC_TORCH_DEVICE,
                     [](const c10::Stream& s) -> void* { return c10::cuda::CUDAStream(s).stream(); },
                     random_state};
[[maybe_unused]] const bool registered = (set_vendor(c10::DeviceType::CUDA, kVendor), true);

}  // namespace
}  // namespace musaic::torch_adapter
