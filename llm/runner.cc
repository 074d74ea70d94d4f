#include "llm/runner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "musaic/error.h"
#include "musaic/ops.h"
#include "musaic/registry.h"

namespace musaic::llm {
namespace {

/// Rows up to which a product reads the weights row by row; the results are the same either way.
constexpr int64_t kVectorRows = 4;

Tensor first(const OwnedTensor& t, int64_t n) { return t.view().slice(0, 0, n); }

Workspace workspace(const OwnedTensor& t) { return {t.view().data(), t.size_in_bytes()}; }

constexpr const char* kOperators[] = {
    "ggml_embedding_rows", "rmsnorm",        "fused_add_rmsnorm", "ggml_mul_mat_a8", "ggml_mul_mat_vec_a8",
    "rotary_embedding",    "kv_cache_store", "paged_attention",   "silu_and_mul"};

void check_operators(Device device) {
  std::string lacking;
  for (const char* name : kOperators)
    if (!has_operator(name, device)) lacking += (lacking.empty() ? "" : ", ") + std::string(name);
  if (!lacking.empty())
    throw Error("generate", "device", to_string(device) + ", whose backend lacks " + lacking,
                "a device whose backend has what a llama is computed with");
}

/// The stream of a device on which everything runs; the CPU has none.
Stream make_stream(Device device) {
  return device.type == DeviceType::kCpu ? Stream{} : create_stream(device);
}

}  // namespace

/// What one forward pass works on: views of the first rows of the buffers.
struct Runner::Pass {
  int64_t num_tokens, num_rows, num_logits;
  Tensor hidden, residual;
  Tensor query, key, value, attended;  // [num_tokens, heads, head_dim]
};

Runner::Runner(const Model& model, KvCache& cache, const Limits& limits, bool graphs)
    : model_(model),
      cache_(cache),
      limits_(limits),
      graphs_(graphs && model.device().type != DeviceType::kCpu && !model.has_biases()),
      inputs_(model.device()) {
  const Config& c = model.config();
  const Device d = model.device();
  check_operators(d);
  const int64_t tokens = limits.pass_tokens, rows = limits.pass_rows, logits = limits.pass_logits;
  b_.token_ids = inputs_.add(kInt32, {tokens});
  b_.positions = inputs_.add(kInt64, {tokens});
  b_.slots = inputs_.add(kInt64, {tokens});
  b_.pages = inputs_.add(kInt32, {rows, cache.row_pages()});
  b_.lengths = inputs_.add(kInt32, {rows});
  b_.starts = inputs_.add(kInt32, {rows + 1});
  b_.picked = inputs_.add(kInt32, {logits});
  inputs_.allocate();
  b_.residual = OwnedTensor(kFloat32, {tokens, c.hidden_size}, d);
  b_.hidden = OwnedTensor(kFloat32, {tokens, c.hidden_size}, d);
  b_.query = OwnedTensor(kFloat32, {tokens, c.num_heads, c.head_dim}, d);
  b_.key = OwnedTensor(kFloat32, {tokens, c.num_kv_heads, c.head_dim}, d);
  b_.value = OwnedTensor(kFloat32, {tokens, c.num_kv_heads, c.head_dim}, d);
  b_.attended = OwnedTensor(kFloat32, {tokens, c.num_heads, c.head_dim}, d);
  b_.gate_up = OwnedTensor(kFloat32, {tokens, 2 * c.intermediate_size}, d);
  b_.activated = OwnedTensor(kFloat32, {tokens, c.intermediate_size}, d);
  b_.last = OwnedTensor(kFloat32, {logits, c.hidden_size}, d);
  b_.logits = OwnedTensor(kFloat32, {logits, c.vocab_size}, d);
  b_.rope = OwnedTensor(kFloat32, {limits.context, c.rotary_dim}, d);
  const OwnedTensor rope(kFloat32, {limits.context, c.rotary_dim});
  fill_rope_table(c, model.rope_stretch(), limits.context, rope.data_as<float>());
  copy_to_device(d, b_.rope.view().data(), rope.view().data(), rope.size_in_bytes());
  int64_t bytes =
      paged_attention_workspace_bytes(b_.query, cache.keys(0), cache.values(0), inputs_.on_device(b_.pages));
  for (const int64_t width : {c.hidden_size, c.q_size(), c.intermediate_size})
    bytes = std::max(bytes, ggml_mul_mat_a8_workspace_bytes(std::max(tokens, logits), width));
  b_.workspace = OwnedTensor(kUInt8, {bytes}, d);
  stream_ = make_stream(d);
  synchronize(d);  // the memory above was zeroed on the default stream, for which no other waits
}

Runner::~Runner() {
  if (device().type == DeviceType::kCpu) return;
  try {
    synchronize(device(), stream_);
  } catch (const Error&) {
    // Whoever waited for the work was told.
  }
  for (const auto& [rows, step] : steps_)
    if (step.graph.handle != nullptr) destroy_graph(device(), step.graph);
  destroy_stream(device(), stream_);
}

int64_t Runner::buffer_bytes() const {
  int64_t total = inputs_.bytes();
  for (const OwnedTensor* t : {&b_.residual, &b_.hidden, &b_.query, &b_.key, &b_.value, &b_.attended,
                               &b_.gate_up, &b_.activated, &b_.last, &b_.logits, &b_.rope, &b_.workspace})
    total += t->size_in_bytes();
  return total;
}

template <class Work>
void Runner::measure(Profile::Kind kind, const Work& work) {
  profile_.measure(kind, [&] {
    work();
    if (profile_.is_on() && device().type != DeviceType::kCpu) synchronize(device(), stream_);
  });
}

Tensor Runner::forward(std::span<const Piece> pieces) {
  const Pass pass = prepare(pieces);
  const Tensor logits = first(b_.logits, pass.num_logits);
  if (pass.num_tokens == 0) return logits;
  inputs_.upload(stream_);
  const bool is_step = pass.num_tokens == pass.num_rows && pass.num_logits == pass.num_rows;
  if (!graphs_ || !is_step || trace_ || profile_.is_on()) {
    compute(pass);
    return logits;
  }
  Step& step = steps_[pass.num_rows];
  // The first pass runs as it is: a backend may load its kernels at their first launch, which no capture allows.
  if (step.runs++ == 0) {
    compute(pass);
    return logits;
  }
  if (step.graph.handle == nullptr) capture(pass, step.graph);
  replay(device(), step.graph, stream_);
  ++replays_;
  return logits;
}

/// Every argument that a pass of this shape has lies where it lay when it was captured.
void Runner::capture(const Pass& pass, Graph& graph) {
  begin_capture(device(), stream_);
  try {
    compute(pass);
  } catch (...) {
    destroy_graph(device(), end_capture(device(), stream_));
    throw;
  }
  graph = end_capture(device(), stream_);
}

void Runner::compute(const Pass& pass) {
  embed(pass);
  const std::vector<Layer>& layers = model_.layers();
  const double eps = model_.config().norm_eps;
  measure(Profile::kNorm, [&] { rmsnorm(pass.hidden, pass.residual, layers[0].attn_norm, eps, stream_); });
  for (size_t i = 0; i < layers.size(); ++i) {
    attention(pass, static_cast<int64_t>(i));
    measure(Profile::kNorm,
            [&] { fused_add_rmsnorm(pass.hidden, pass.residual, layers[i].ffn_norm, eps, stream_); });
    feed_forward(pass, layers[i]);
    const Tensor& next = i + 1 < layers.size() ? layers[i + 1].attn_norm : model_.output_norm();
    measure(Profile::kNorm, [&] { fused_add_rmsnorm(pass.hidden, pass.residual, next, eps, stream_); });
  }
  output(pass);
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
  inputs_.host<int32_t>(b_.starts)[0] = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const Piece& piece = pieces[static_cast<size_t>(i)];
    const auto n = static_cast<int64_t>(piece.tokens.size());
    std::copy(piece.tokens.begin(), piece.tokens.end(), inputs_.host<int32_t>(b_.token_ids) + token);
    const int64_t position = cache_.append(piece.row, n, inputs_.host<int64_t>(b_.slots) + token);
    for (int64_t k = 0; k < n; ++k) inputs_.host<int64_t>(b_.positions)[token + k] = position + k;
    std::copy_n(cache_.pages(piece.row), cache_.row_pages(),
                inputs_.host<int32_t>(b_.pages) + i * cache_.row_pages());
    const int64_t skipped = piece.logits == Piece::Logits::kAll    ? 0
                            : piece.logits == Piece::Logits::kLast ? n - 1
                                                                   : n;
    token += n;
    for (int64_t k = std::max<int64_t>(skipped, 0); k < n; ++k)
      inputs_.host<int32_t>(b_.picked)[picked++] = static_cast<int32_t>(token - n + k);
    inputs_.host<int32_t>(b_.lengths)[i] = static_cast<int32_t>(position + n);
    inputs_.host<int32_t>(b_.starts)[i + 1] = static_cast<int32_t>(token);
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
  measure(Profile::kEmbedding, [&] {
    ggml_embedding_rows(pass.residual, w.blocks, input(b_.token_ids, pass.num_tokens), w.type, stream_);
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
  measure(Profile::kRope, [&] {
    rotary_embedding(query, key, input(b_.positions, p.num_tokens), b_.rope, c.head_dim, /*is_neox=*/false,
                     stream_);
  });
  const Tensor keys = cache_.keys(index), values = cache_.values(index);
  measure(Profile::kStore,
          [&] { kv_cache_store(keys, values, p.key, p.value, input(b_.slots, p.num_tokens), stream_); });
  measure(Profile::kAttention, [&] {
    paged_attention(p.attended, {}, p.query, keys, values, input(b_.pages, p.num_rows),
                    input(b_.lengths, p.num_rows), input(b_.starts, p.num_rows + 1),
                    1.0 / std::sqrt(static_cast<double>(c.head_dim)), /*window=*/0,
                    /*soft_cap=*/0.0, /*causal=*/true, stream_, workspace(b_.workspace));
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
  measure(Profile::kActivation, [&] { silu_and_mul(activated, gate_up, stream_); });
  show(activated);
  multiply(p.hidden, layer.down, activated);
}

void Runner::output(const Pass& p) {
  if (p.num_logits == 0) return;
  const Tensor logits = first(b_.logits, p.num_logits);
  Tensor rows = p.hidden;
  if (p.num_logits < p.num_tokens) {
    rows = first(b_.last, p.num_logits);
    const Tensor bytes(p.hidden.data(), kUInt8, {p.num_tokens, p.hidden.size(1) * 4}, device());
    ggml_embedding_rows(rows, bytes, input(b_.picked, p.num_logits), static_cast<int64_t>(GgmlType::kF32),
                        stream_);
  }
  show(rows);
  measure(Profile::kOutput, [&] { product(logits, model_.output(), rows); });
}

/// out = in * weight^T; both operators give the same bits.
void Runner::product(const Tensor& out, const Weight& w, const Tensor& in) const {
  const auto run = in.size(0) <= kVectorRows ? &ggml_mul_mat_vec_a8 : &ggml_mul_mat_a8;
  run(out, w.blocks, in, w.type, w.rows, stream_, workspace(b_.workspace));
}

/// out = in * weight^T + bias.
void Runner::multiply(const Tensor& out, const Weight& weight, const Tensor& in) {
  measure(Profile::kProduct, [&] {
    product(out, weight, in);
    if (weight.bias) add_bias(out, weight.bias);
  });
}

/// No operator adds a vector to rows; biases are few and short, so the host adds them.
void Runner::add_bias(const Tensor& out, const Tensor& bias) const {
  const float* b = bias.data_as<float>();
  const int64_t n = bias.size(0);
  const bool is_here = device().type == DeviceType::kCpu;
  std::vector<float> copy(is_here ? 0 : static_cast<size_t>(n));
  for (int64_t row = 0; row < out.size(0); ++row) {
    float* there = out.data_as<float>() + row * out.stride(0);
    float* y = is_here ? there : copy.data();
    if (!is_here) copy_to_host(device(), y, there, n * 4, stream_);
    for (int64_t i = 0; i < n; ++i) y[i] += b[i];
    if (!is_here) copy_to_device(device(), there, y, n * 4, stream_);
  }
}

void Runner::show(const Tensor& input) const {
  if (!trace_) return;
  if (device().type == DeviceType::kCpu) return trace_(input);
  const OwnedTensor here(input.dtype(), std::vector<int64_t>(input.shape(), input.shape() + input.ndim()));
  copy_to_host(device(), here.view().data(), input.data(), here.size_in_bytes(), stream_);
  trace_(here);
}

}  // namespace musaic::llm
