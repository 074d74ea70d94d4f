// One forward pass of a llama over new tokens of some rows.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "llm/cache.h"
#include "llm/model.h"
#include "llm/profile.h"
#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic::llm {

/// Everything that a forward pass writes, allocated once. T = most tokens of a pass, R = most rows of a pass,
/// L = most logits of a pass.
struct Buffers {
  OwnedTensor token_ids;  ///< int32 [T]
  OwnedTensor positions;  ///< int64 [T]
  OwnedTensor slots;      ///< int64 [T], where in the cache a token goes
  OwnedTensor pages;      ///< int32 [R, row_pages]
  OwnedTensor lengths;    ///< int32 [R], with the new tokens
  OwnedTensor starts;     ///< int32 [R + 1], the first token of each row
  OwnedTensor picked;     ///< int32 [L], the tokens whose logits are wanted

  OwnedTensor residual;   ///< float32 [T, hidden_size], the sum of all layers so far
  OwnedTensor hidden;     ///< float32 [T, hidden_size], normed input of a product, or a product's output
  OwnedTensor query;      ///< float32 [T, num_heads * head_dim]
  OwnedTensor key;        ///< float32 [T, num_kv_heads * head_dim]
  OwnedTensor value;      ///< float32 [T, num_kv_heads * head_dim]
  OwnedTensor attended;   ///< float32 [T, num_heads * head_dim]
  OwnedTensor gate_up;    ///< float32 [T, 2 * intermediate_size], gate then up
  OwnedTensor activated;  ///< float32 [T, intermediate_size]
  OwnedTensor last;       ///< float32 [L, hidden_size], the rows of hidden that are picked
  OwnedTensor logits;     ///< float32 [L, vocab_size]
  OwnedTensor rope;       ///< float32 [context, rotary_dim], see fill_rope_table
  OwnedTensor workspace;  ///< uint8
};

/// New tokens of one row of the cache.
struct Piece {
  int64_t row;
  std::span<const int32_t> tokens;
  enum class Logits { kNone, kLast, kAll } logits;
};

/// Computes with the operators of musaic alone. What a token gets does not depend on the other pieces of its
/// pass, on how a prompt was cut into passes, or on the number of threads.
class Runner {
 public:
  struct Limits {
    int64_t context;      ///< positions of a row
    int64_t pass_tokens;  ///< T
    int64_t pass_rows;    ///< R
    int64_t pass_logits;  ///< L
  };

  /// `model` and `cache` must outlive the runner.
  Runner(const Model& model, KvCache& cache, const Limits& limits);

  /// Appends the pieces' tokens to their rows; returns the logits that were asked for, float32 [n,
  /// vocab_size], in order, valid until the next call. Throws musaic::Error, before anything is computed, for
  /// an id outside the vocabulary, a row out of capacity, or a pass larger than the limits.
  Tensor forward(std::span<const Piece> pieces);

  Profile& profile() { return profile_; }
  /// Is shown the inputs of products as they are computed: of each layer for q (and k, v), attn_out, gate
  /// (and up), down; then for the output. For proofs.
  void set_trace(std::function<void(const Tensor&)> trace) { trace_ = std::move(trace); }
  int64_t buffer_bytes() const;

 private:
  struct Pass;
  Pass prepare(std::span<const Piece> pieces);
  void embed(const Pass& pass);
  void attention(const Pass& pass, int64_t index);
  void feed_forward(const Pass& pass, const Layer& layer);
  Tensor output(const Pass& pass);
  void show(const Tensor& input) const {
    if (trace_) trace_(input);
  }
  void multiply(const Tensor& out, const Weight& weight, const Tensor& in);

  const Model& model_;
  KvCache& cache_;
  Limits limits_;
  Buffers b_;
  Profile profile_;
  std::function<void(const Tensor&)> trace_;
};

}  // namespace musaic::llm
