// Drawing the next token of some rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/staging.h"
#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic::llm {

/// How a request's tokens are drawn. The edge values mean the same as in sampling_from_logits.
struct Sampling {
  float temperature = 0.2f;  ///< 0: always the most probable token
  int64_t top_k = 0;         ///< the k most probable; 0 and below, and the vocabulary's size and above: all
  float top_p = 0.9f;  ///< the most probable that make up this share; 1 and above: all; 0 and below: one
  float min_p = 0;     ///< those with at least this share of the most probable one's; 0 and below: all
  uint64_t seed = 0;

  /// Throws musaic::Error for a number that is NaN, a temperature that is negative or infinite.
  void check() const;
};

/// Draws with the operator sampling_from_logits, on the device if its backend has it, else on the CPU. The random numbers of a token depend on its request's seed
/// and its position alone.
class Sampler {
 public:
  /// For `num_rows` rows of `vocab_size` logits.
  Sampler(int64_t num_rows, int64_t vocab_size, Device device = {});

  void set(int64_t row, const Sampling& sampling) { sampling_.at(static_cast<size_t>(row)) = sampling; }

  struct Row {
    int64_t row;
    int64_t position;  ///< where the token will stand: the number of tokens before it
  };

  /// Draws one token for each of `rows` from logits, float32 [rows.size(), vocab_size] on the device; valid until the next
  /// call. Waits for the stream. Throws musaic::Error when logits are not numbers.
  std::span<const int32_t> draw(const Tensor& logits, std::span<const Row> rows, Stream stream = {});

 private:
  Device device_, place_;           // of the logits; where tokens are drawn
  std::vector<Sampling> sampling_;  // by row of the cache
  Staging inputs_;
  size_t seed_, offset_, temperature_, top_p_, min_p_, top_k_;  // in inputs_, [num_rows] each
  OwnedTensor tokens_, valid_;                                  // int32, uint8 [num_rows], at the place
  OwnedTensor host_logits_;  // float32 [num_rows, vocab_size], if that is elsewhere
  OwnedTensor workspace_;    // uint8
  std::vector<int32_t> drawn_;
  std::vector<uint8_t> drawn_valid_;
};

}  // namespace musaic::llm
