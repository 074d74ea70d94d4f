#include "llm/sampler.h"

#include <cmath>
#include <cstddef>
#include <string>

#include "musaic/device.h"
#include "musaic/error.h"
#include "musaic/ops.h"
#include "musaic/registry.h"

namespace musaic::llm {

void Sampling::check() const {
  if (!(temperature >= 0) || std::isinf(temperature))
    throw Error("generate", "temperature", std::to_string(temperature), "a number >= 0");
  if (std::isnan(top_p)) throw Error("generate", "top-p", "nan", "a number");
  if (std::isnan(min_p)) throw Error("generate", "min-p", "nan", "a number");
}

Sampler::Sampler(int64_t num_rows, int64_t vocab_size, Device device)
    : device_(device),
      place_(has_operator("sampling_from_logits", device) ? device : Device{}),
      sampling_(static_cast<size_t>(num_rows)),
      inputs_(place_),
      seed_(inputs_.add(kInt64, {num_rows})),
      offset_(inputs_.add(kInt64, {num_rows})),
      temperature_(inputs_.add(kFloat32, {num_rows})),
      top_p_(inputs_.add(kFloat32, {num_rows})),
      min_p_(inputs_.add(kFloat32, {num_rows})),
      top_k_(inputs_.add(kInt64, {num_rows})),
      tokens_(kInt32, {num_rows}, place_),
      valid_(kUInt8, {num_rows}, place_),
      workspace_(kUInt8, {sampling_workspace_bytes(num_rows, vocab_size, place_)}, place_),
      drawn_(static_cast<size_t>(num_rows)),
      drawn_valid_(static_cast<size_t>(num_rows)) {
  inputs_.allocate();
  synchronize(place_);  // new memory is zeroed on the default stream
  if (place_ != device_) host_logits_ = OwnedTensor(kFloat32, {num_rows, vocab_size});
}

std::span<const int32_t> Sampler::draw(const Tensor& logits, std::span<const Row> rows, Stream stream) {
  const auto n = static_cast<int64_t>(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Sampling& s = sampling_.at(static_cast<size_t>(rows[i].row));
    inputs_.host<int64_t>(seed_)[i] = static_cast<int64_t>(s.seed);
    inputs_.host<int64_t>(offset_)[i] = rows[i].position;
    inputs_.host<float>(temperature_)[i] = s.temperature;
    inputs_.host<float>(top_p_)[i] = s.top_p;
    inputs_.host<float>(min_p_)[i] = s.min_p;
    inputs_.host<int64_t>(top_k_)[i] = s.top_k;
  }
  const auto first = [n](const Tensor& t) { return t.slice(0, 0, n); };
  Tensor here = logits;
  if (place_ != device_) {
    here = first(host_logits_);
    copy_to_host(device_, here.data(), logits.data(), here.numel() * 4, stream);
    check(device_, stream);
    stream = {};
  }
  inputs_.upload(stream);
  const auto input = [&](size_t field) { return first(inputs_.on_device(field)); };
  sampling_from_logits(first(tokens_), first(valid_), here, {}, input(seed_), input(offset_), {},
                       input(temperature_), input(top_k_), input(top_p_), input(min_p_), 1, 0, 1, 0, false,
                       stream, {workspace_.view().data(), workspace_.size_in_bytes()});
  copy_to_host(place_, drawn_.data(), tokens_.view().data(), n * 4, stream);
  copy_to_host(place_, drawn_valid_.data(), valid_.view().data(), n, stream);
  check(place_, stream);
  for (size_t i = 0; i < rows.size(); ++i)
    if (drawn_valid_[i] == 0)
      throw Error("generate", "logits", "not numbers at position " + std::to_string(rows[i].position),
                  "finite numbers: are the model's weights damaged?");
  return {drawn_.data(), rows.size()};
}

}  // namespace musaic::llm
