// Moore Threads' torch_musa: streams and Philox state. Compiled here against declarations only, never run.
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include "bindings/torch/vendor.h"
#include "torch_musa/csrc/aten/musa/MUSAGeneratorImpl.h"
#include "torch_musa/csrc/core/MUSAStream.h"

namespace musaic::torch_adapter {
namespace {

RandomState random_state(const std::optional<at::Generator>& generator, c10::Device device) {
  auto* g = at::get_generator_or_default<at::MUSAGeneratorImpl>(
      generator, at::musa::detail::getDefaultMUSAGenerator(device.index()));
  at::PhiloxMusaState state;
  {
    const std::lock_guard<std::mutex> lock(g->mutex_);
    state = g->philox_musa_state(4);
  }
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  if (!state.captured_)
    return {at::full({1}, static_cast<std::int64_t>(state.seed_.val), options),
            at::full({1}, static_cast<std::int64_t>(state.offset_.val), options)};
  const at::Tensor seed = at::from_blob(state.seed_.ptr, {1}, options);
  const at::Tensor offset = at::from_blob(state.offset_.ptr, {1}, options);
  return {seed, offset.add(static_cast<std::int64_t>(state.offset_intragraph_))};
}

const Vendor kVendor{"musa", DeviceType::kMusa,
                     [](const c10::Stream& s) -> void* { return c10::musa::MUSAStream(s).stream(); },
                     random_state};
[[maybe_unused]] const bool registered = (set_vendor(c10::DeviceType::PrivateUse1, kVendor), true);

}  // namespace
}  // namespace musaic::torch_adapter
