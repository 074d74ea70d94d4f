#include "llm/runner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>

#include "musaic/error.h"
#include "musaic/ops.h"

namespace musaic::llm {
namespace {

/// Rows up to which a product reads the weights row by row; the results are the same either way.
constexpr int64_t kVectorRows = 4;

Tensor first(const OwnedTensor& t, int64_t n) { return t.view().slice(0, 0, n); }

/// out = in * weight^T; both operators give the same bits.
void product(const Tensor& out, const Weight& w, const Tensor& in, Workspace scratch) {
  const auto run = in.size(0) <= kVectorRows ? &ggml_mul_mat_vec_a8 : &ggml_mul_mat_a8;
  run(out, w.blocks, in, w.type, w.rows, {}, scratch);
}

Workspace workspace(const OwnedTensor& t) { return {t.view().data(), t.size_in_bytes()}; }

/// No operator adds a vector to rows; biases are few and short.
void add_bias(const Tensor& out, const Tensor& bias) {
  const float* b = bias.data_as<float>();
  for (int64_t row = 0; row < out.size(0); ++row) {
    float* y = out.data_as<float>() + row * out.stride(0);
    for (int64_t i = 0; i < bias.size(0); ++i) y[i] += b[i];
  }
}

}  // namespace

/// What one forward pass works on: views of the first rows of the buffers.
struct Runner::Pass {
  int64_t num_tokens, num_rows, num_logits;
  Tensor hidden, residual;
  Tensor query, key, value, attended;  // [num_tokens, heads, head_dim]
};

Runner::Runner(const Model& model, KvCache& cache, const Limits& limits)
    : model_(model), cache_(cache), limits_(limits) {
  const Config& c = model.config();
  const int64_t tokens = limits.pass_tokens, rows = limits.pass_rows, logits = limits.pass_logits;
  b_.token_ids = OwnedTensor(kInt32, {tokens});
  b_.positions = OwnedTensor(kInt64, {tokens});
  b_.slots = OwnedTensor(kInt64, {tokens});
  b_.pages = OwnedTensor(kInt32, {rows, cache.row_pages()});
  b_.lengths = OwnedTensor(kInt32, {rows});
  b_.starts = OwnedTensor(kInt32, {rows + 1});
  b_.picked = OwnedTensor(kInt32, {logits});
  b_.residual = OwnedTensor(kFloat32, {tokens, c.hidden_size});
  b_.hidden = OwnedTensor(kFloat32, {tokens, c.hidden_size});
  b_.query = OwnedTensor(kFloat32, {tokens, c.num_heads, c.head_dim});
  b_.key = OwnedTensor(kFloat32, {tokens, c.num_kv_heads, c.head_dim});
  b_.value = OwnedTensor(kFloat32, {tokens, c.num_kv_heads, c.head_dim});
  b_.attended = OwnedTensor(kFloat32, {tokens, c.num_heads, c.head_dim});
  b_.gate_up = OwnedTensor(kFloat32, {tokens, 2 * c.intermediate_size});
  b_.activated = OwnedTensor(kFloat32, {tokens, c.intermediate_size});
  b_.last = OwnedTensor(kFloat32, {logits, c.hidden_size});
  b_.logits = OwnedTensor(kFloat32, {logits, c.vocab_size});
  b_.rope = OwnedTensor(kFloat32, {limits.context, c.rotary_dim});
  fill_rope_table(c, model.rope_stretch(), limits.context, b_.rope.data_as<float>());
  int64_t bytes = paged_attention_workspace_bytes(b_.query, cache.keys(0), cache.values(0), b_.pages);
  for (const int64_t width : {c.hidden_size, c.q_size(), c.intermediate_size})
    bytes = std::max(bytes, ggml_mul_mat_a8_workspace_bytes(std::max(tokens, logits), width));
  b_.workspace = OwnedTensor(kUInt8, {bytes});
}

int64_t Runner::buffer_bytes() const {
  int64_t total = 0;
  for (const OwnedTensor* t :
       {&b_.token_ids, &b_.positions, &b_.slots, &b_.pages, &b_.lengths, &b_.starts, &b_.picked, &b_.residual,
        &b_.hidden, &b_.query, &b_.key, &b_.value, &b_.attended, &b_.gate_up, &b_.activated, &b_.last,
        &b_.logits, &b_.rope, &b_.workspace})
    total += t->size_in_bytes();
  return total;
}

Tensor Runner::forward(std::span<const Piece> pieces) {
  const Pass pass = prepare(pieces);
  if (pass.num_tokens == 0) return first(b_.logits, 0);
  embed(pass);
  const std::vector<Layer>& layers = model_.layers();
  const double eps = model_.config().norm_eps;
  profile_.measure(Profile::kNorm, [&] { rmsnorm(pass.hidden, pass.residual, layers[0].attn_norm, eps); });
  for (size_t i = 0; i < layers.size(); ++i) {
    attention(pass, static_cast<int64_t>(i));
    profile_.measure(Profile::kNorm,
                     [&] { fused_add_rmsnorm(pass.hidden, pass.residual, layers[i].ffn_norm, eps); });
    feed_forward(pass, layers[i]);
    const Tensor& next = i + 1 < layers.size() ? layers[i + 1].attn_norm : model_.output_norm();
    profile_.measure(Profile::kNorm, [&] { fused_add_rmsnorm(pass.hidden, pass.residual, next, eps); });
  }
  return output(pass);
}

Runner::Pass Runner::prepare(std::span<const Piece> pieces) {
  const Config& c = model_.config();
  int64_t tokens = 0, logits = 0;
  for (const Piece& piece : pieces) {
    const auto n = static_cast<int64_t>(piece.tokens.size());
    tokens += n;
    logits += piece.logits == Piece::Logits::kAll ? n : piece.logits == Piece::Logits::kLast && n > 0 ? 1 : 0;
    for (const int32_t id : piece.tokens)
      if (id < 0 || id >= c.vocab_size)
        throw Error("forward", "token", std::to_string(id), "an id below " + std::to_string(c.vocab_size));
    if (cache_.length(piece.row) + n > std::min(cache_.capacity(piece.row), limits_.context))
      throw Error("forward", "row " + std::to_string(piece.row),
                  std::to_string(cache_.length(piece.row) + n) + " tokens",
                  "at most " + std::to_string(std::min(cache_.capacity(piece.row), limits_.context)));
  }
  const auto rows = static_cast<int64_t>(pieces.size());
  if (tokens > limits_.pass_tokens || rows > limits_.pass_rows || logits > limits_.pass_logits)
    throw Error("forward", "pass",
                std::to_string(tokens) + " tokens of " + std::to_string(rows) + " rows, " +
                    std::to_string(logits) + " logits",
                "at most " + std::to_string(limits_.pass_tokens) + ", " + std::to_string(limits_.pass_rows) +
                    ", " + std::to_string(limits_.pass_logits));

  int64_t token = 0, picked = 0;
  b_.starts.data_as<int32_t>()[0] = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const Piece& piece = pieces[static_cast<size_t>(i)];
    const auto n = static_cast<int64_t>(piece.tokens.size());
    std::copy(piece.tokens.begin(), piece.tokens.end(), b_.token_ids.data_as<int32_t>() + token);
    const int64_t position = cache_.append(piece.row, n, b_.slots.data_as<int64_t>() + token);
    for (int64_t k = 0; k < n; ++k) b_.positions.data_as<int64_t>()[token + k] = position + k;
    std::copy_n(cache_.pages(piece.row), cache_.row_pages(),
                b_.pages.data_as<int32_t>() + i * cache_.row_pages());
    const int64_t skipped = piece.logits == Piece::Logits::kAll    ? 0
                            : piece.logits == Piece::Logits::kLast ? n - 1
                                                                   : n;
    token += n;
    for (int64_t k = std::max<int64_t>(skipped, 0); k < n; ++k)
      b_.picked.data_as<int32_t>()[picked++] = static_cast<int32_t>(token - n + k);
    b_.lengths.data_as<int32_t>()[i] = static_cast<int32_t>(position + n);
    b_.starts.data_as<int32_t>()[i + 1] = static_cast<int32_t>(token);
  }
  return {tokens,
          rows,
          logits,
          first(b_.hidden, tokens),
          first(b_.residual, tokens),
          first(b_.query, tokens),
          first(b_.key, tokens),
          first(b_.value, tokens),
          first(b_.attended, tokens)};
}

void Runner::embed(const Pass& pass) {
  const Weight& w = model_.embedding();
  profile_.measure(Profile::kEmbedding, [&] {
    ggml_embedding_rows(pass.residual, w.blocks, first(b_.token_ids, pass.num_tokens), w.type);
  });
}

/// hidden = attention of the normed hidden, of layer `index`.
void Runner::attention(const Pass& p, int64_t index) {
  const Config& c = model_.config();
  const Layer& layer = model_.layers()[static_cast<size_t>(index)];
  const Tensor query = p.query.view({p.num_tokens, c.q_size()});
  const Tensor key = p.key.view({p.num_tokens, c.kv_size()});
  const Tensor value = p.value.view({p.num_tokens, c.kv_size()});
  show(p.hidden);
  multiply(query, layer.q, p.hidden);
  multiply(key, layer.k, p.hidden);
  multiply(value, layer.v, p.hidden);
  profile_.measure(Profile::kRope, [&] {
    rotary_embedding(query, key, first(b_.positions, p.num_tokens), b_.rope, c.head_dim, /*is_neox=*/false);
  });
  const Tensor keys = cache_.keys(index), values = cache_.values(index);
  profile_.measure(Profile::kStore,
                   [&] { kv_cache_store(keys, values, p.key, p.value, first(b_.slots, p.num_tokens)); });
  profile_.measure(Profile::kAttention, [&] {
    paged_attention(p.attended, {}, p.query, keys, values, first(b_.pages, p.num_rows),
                    first(b_.lengths, p.num_rows), first(b_.starts, p.num_rows + 1),
                    1.0 / std::sqrt(static_cast<double>(c.head_dim)), /*window=*/0,
                    /*soft_cap=*/0.0, /*causal=*/true, {}, workspace(b_.workspace));
  });
  show(p.attended);
  multiply(p.hidden, layer.attn_out, p.attended.view({p.num_tokens, c.q_size()}));
}

/// hidden = down(silu(gate(hidden)) * up(hidden)).
void Runner::feed_forward(const Pass& p, const Layer& layer) {
  const int64_t inner = model_.config().intermediate_size;
  const Tensor gate_up = first(b_.gate_up, p.num_tokens), activated = first(b_.activated, p.num_tokens);
  show(p.hidden);
  if (layer.gate_up.blocks) {
    multiply(gate_up, layer.gate_up, p.hidden);
  } else {
    multiply(gate_up.slice(1, 0, inner), layer.gate, p.hidden);
    multiply(gate_up.slice(1, inner, 2 * inner), layer.up, p.hidden);
  }
  profile_.measure(Profile::kActivation, [&] { silu_and_mul(activated, gate_up); });
  show(activated);
  multiply(p.hidden, layer.down, activated);
}

Tensor Runner::output(const Pass& p) {
  const Tensor logits = first(b_.logits, p.num_logits);
  if (p.num_logits == 0) return logits;
  Tensor rows = p.hidden;
  if (p.num_logits < p.num_tokens) {
    rows = first(b_.last, p.num_logits);
    const Tensor bytes(p.hidden.data(), kUInt8, {p.num_tokens, p.hidden.size(1) * 4});
    ggml_embedding_rows(rows, bytes, first(b_.picked, p.num_logits), static_cast<int64_t>(GgmlType::kF32));
  }
  show(rows);
  profile_.measure(Profile::kOutput,
                   [&] { product(logits, model_.output(), rows, workspace(b_.workspace)); });
  return logits;
}

/// out = in * weight^T + bias.
void Runner::multiply(const Tensor& out, const Weight& weight, const Tensor& in) {
  profile_.measure(Profile::kProduct, [&] {
    product(out, weight, in, workspace(b_.workspace));
    if (weight.bias) add_bias(out, weight.bias);
  });
}

}  // namespace musaic::llm
