#include "llm/sampler.h"

#include <cmath>
#include <cstddef>
#include <string>

#include "musaic/error.h"
#include "musaic/ops.h"

namespace musaic::llm {

void Sampling::check() const {
  if (!(temperature >= 0) || std::isinf(temperature))
    throw Error("generate", "temperature", std::to_string(temperature), "a number >= 0");
  if (std::isnan(top_p)) throw Error("generate", "top-p", "nan", "a number");
  if (std::isnan(min_p)) throw Error("generate", "min-p", "nan", "a number");
}

Sampler::Sampler(int64_t num_rows, int64_t vocab_size)
    : sampling_(static_cast<size_t>(num_rows)),
      tokens_(kInt32, {num_rows}),
      valid_(kUInt8, {num_rows}),
      seed_(kInt64, {num_rows}),
      offset_(kInt64, {num_rows}),
      temperature_(kFloat32, {num_rows}),
      top_p_(kFloat32, {num_rows}),
      min_p_(kFloat32, {num_rows}),
      top_k_(kInt64, {num_rows}),
      workspace_(kUInt8, {sampling_workspace_bytes(num_rows, vocab_size)}) {}

std::span<const int32_t> Sampler::draw(const Tensor& logits, std::span<const Row> rows) {
  const auto n = static_cast<int64_t>(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Sampling& s = sampling_.at(static_cast<size_t>(rows[i].row));
    seed_.data_as<int64_t>()[i] = static_cast<int64_t>(s.seed);
    offset_.data_as<int64_t>()[i] = rows[i].position;
    temperature_.data_as<float>()[i] = s.temperature;
    top_p_.data_as<float>()[i] = s.top_p;
    min_p_.data_as<float>()[i] = s.min_p;
    top_k_.data_as<int64_t>()[i] = s.top_k;
  }
  const auto first = [n](const OwnedTensor& t) { return t.view().slice(0, 0, n); };
  sampling_from_logits(first(tokens_), first(valid_), logits, {}, first(seed_), first(offset_), {},
                       first(temperature_), first(top_k_), first(top_p_), first(min_p_), 1, 0, 1, 0, false,
                       {}, {workspace_.view().data(), workspace_.size_in_bytes()});
  for (int64_t i = 0; i < n; ++i)
    if (valid_.data_as<uint8_t>()[i] == 0)
      throw Error("generate", "logits",
                  "not numbers at position " + std::to_string(rows[static_cast<size_t>(i)].position),
                  "finite numbers: are the model's weights damaged?");
  return {tokens_.data_as<int32_t>(), rows.size()};
}

}  // namespace musaic::llm
