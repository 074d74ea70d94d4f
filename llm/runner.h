// One forward pass of a llama over new tokens of some rows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>

#include "llm/cache.h"
#include "llm/model.h"
#include "llm/profile.h"
#include "llm/staging.h"
#include "musaic/device.h"
#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic::llm {

/// Everything that a forward pass writes on its device, allocated once. T = most tokens of a pass, R = most rows of a pass,
/// L = most logits of a pass.
struct Buffers {
  size_t token_ids;  ///< int32 [T], in the runner's inputs, as are the next six
  size_t positions;  ///< int64 [T]
  size_t slots;      ///< int64 [T], where in the cache a token goes
  size_t pages;      ///< int32 [R, row_pages]
  size_t lengths;    ///< int32 [R], with the new tokens
  size_t starts;     ///< int32 [R + 1], the first token of each row
  size_t picked;     ///< int32 [L], the tokens whose logits are wanted

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

/// Computes with the operators of musaic alone, on the device of the model. What a token gets does not depend on the other pieces of its
/// pass, on how a prompt was cut into passes, or on the number of threads.
class Runner {
 public:
  struct Limits {
    int64_t context;      ///< positions of a row
    int64_t pass_tokens;  ///< T
    int64_t pass_rows;    ///< R
    int64_t pass_logits;  ///< L
  };

  /// `model` and `cache` must outlive the runner and lie on one device. With `graphs`, passes of one token a row are
  /// captured once on a device and then replayed; the results are the same. Throws musaic::Error that names the operators
  /// which the device's backend lacks.
  Runner(const Model& model, KvCache& cache, const Limits& limits, bool graphs = true);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// Appends the pieces' tokens to their rows; returns the logits that were asked for, float32 [n,
  /// vocab_size], on the device, in order of stream() and valid until the next call. Throws musaic::Error, before anything
  /// is computed, for an id outside the vocabulary, a row out of capacity, or a pass larger than the limits.
  Tensor forward(std::span<const Piece> pieces);

  Device device() const { return model_.device(); }
  Stream stream() const { return stream_; }
  /// Passes that were replayed from a graph so far.
  int64_t replays() const { return replays_; }

  Profile& profile() { return profile_; }
  /// Is shown the inputs of products as they are computed: of each layer for q (and k, v), attn_out, gate
  /// (and up), down; then for the output. In the memory of the host; for proofs.
  void set_trace(std::function<void(const Tensor&)> trace) { trace_ = std::move(trace); }
  int64_t buffer_bytes() const;

 private:
  struct Pass;
  /// Passes of one shape.
  struct Step {
    int64_t runs = 0;
    Graph graph;
  };
  Pass prepare(std::span<const Piece> pieces);
  void compute(const Pass& pass);
  void capture(const Pass& pass, Graph& graph);
  void embed(const Pass& pass);
  void attention(const Pass& pass, int64_t index);
  void feed_forward(const Pass& pass, const Layer& layer);
  void output(const Pass& pass);
  void show(const Tensor& input) const;
  void add_bias(const Tensor& out, const Tensor& bias) const;
  Tensor input(size_t field, int64_t n) const { return inputs_.on_device(field).slice(0, 0, n); }
  /// Measured work waits for the device.
  template <class Work>
  void measure(Profile::Kind kind, const Work& work);
  void multiply(const Tensor& out, const Weight& weight, const Tensor& in);
  void product(const Tensor& out, const Weight& weight, const Tensor& in) const;

  const Model& model_;
  KvCache& cache_;
  Limits limits_;
  bool graphs_;
  Stream stream_;
  Staging inputs_;
  Buffers b_;
  std::map<int64_t, Step> steps_;  // by the number of rows
  int64_t replays_ = 0;
  Profile profile_;
  std::function<void(const Tensor&)> trace_;
};

}  // namespace musaic::llm
