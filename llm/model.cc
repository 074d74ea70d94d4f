#include "llm/model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "musaic/device.h"
#include "musaic/error.h"

namespace musaic::llm {
namespace {

constexpr GgmlType kMatrixTypes[] = {GgmlType::kF32,  GgmlType::kF16,  GgmlType::kBF16, GgmlType::kQ4_0,
                                     GgmlType::kQ4_1, GgmlType::kQ5_0, GgmlType::kQ5_1, GgmlType::kQ8_0,
                                     GgmlType::kQ4_K, GgmlType::kQ5_K, GgmlType::kQ6_K};

std::string names_of(std::span<const GgmlType> types) {
  std::string names;
  for (const GgmlType type : types)
    names += (names.empty() ? "" : ", ") + std::string(ggml_type_info(type).name);
  return names;
}

void check_type(const GgufFile& file, const GgufTensor& t, std::span<const GgmlType> types) {
  if (std::find(types.begin(), types.end(), t.type) == types.end())
    throw Error(file.name(), std::string(t.name), std::string("type ") + ggml_type_info(t.type).name,
                (types.size() > 1 ? "one of " : "") + names_of(types));
}

/// The two matrices as one, if the second begins where the first ends.
Weight joined(const Weight& a, const Weight& b) {
  const auto* end = a.blocks.data_as<std::byte>() + a.blocks.numel();
  if (a.type != b.type || a.bias || b.bias || end != b.blocks.data_as<std::byte>()) return {};
  return {Tensor(a.blocks.data(), kUInt8, {a.rows + b.rows, a.blocks.size(1)}, a.blocks.device()),
          a.type,
          a.rows + b.rows,
          a.cols,
          {}};
}

}  // namespace

Model::Model(GgufFile file, Device device)
    : file_(std::move(file)), device_(device), config_(Config::from_gguf(file_)) {
  const Config& c = config_;
  if (device.type != DeviceType::kCpu) {
    const std::byte* end = nullptr;
    for (const GgufTensor& t : file_.tensors()) {
      begin_ = begin_ == nullptr ? t.data : std::min(begin_, t.data);
      end = std::max(end, t.data + t.bytes);
    }
    memory_ = OwnedTensor(kUInt8, {end - begin_}, device);
    copy_to_device(device, memory_.view().data(), begin_, end - begin_);
  }
  embedding_ = matrix("token_embd.weight", c.vocab_size, c.hidden_size);
  layers_.reserve(static_cast<size_t>(c.num_layers));
  for (int64_t i = 0; i < c.num_layers; ++i) layers_.push_back(layer(i));
  output_norm_ = vector("output_norm.weight", c.hidden_size);
  tied_ = file_.find_tensor("output.weight") == nullptr;
  output_ = tied_ ? embedding_ : matrix("output.weight", c.vocab_size, c.hidden_size);
  step_bytes_ = weight_bytes_ - (tied_ ? 0 : embedding_.blocks.numel());

  if (const GgufTensor* t = file_.find_tensor("rope_freqs.weight")) {
    const int64_t size = vector("rope_freqs.weight", c.rotary_dim / 2).numel();
    const auto* values = reinterpret_cast<const float*>(t->data);
    rope_stretch_.assign(values, values + size);
    for (const float f : rope_stretch_)
      if (!(f > 0) || !std::isfinite(f))
        throw Error(file_.name(), std::string(t->name), std::to_string(f), "positive, finite numbers");
  }
}

/// Where a tensor of the file lies for the operators.
const void* Model::place(const GgufTensor& tensor) const {
  return begin_ == nullptr ? tensor.data : memory_.data_as<std::byte>() + (tensor.data - begin_);
}

Weight Model::matrix(const std::string& name, int64_t rows, int64_t cols) {
  const GgufTensor& t = file_.tensor(name);
  check_type(file_, t, kMatrixTypes);
  if (t.dims[0] != cols || t.dims[1] != rows || t.n_dims > 2)
    throw Error(file_.name(), name, "shape " + t.dims_text(),
                "[" + std::to_string(cols) + ", " + std::to_string(rows) + "]");
  weight_bytes_ += static_cast<int64_t>(t.bytes);
  Weight w;
  w.blocks = Tensor(place(t), kUInt8, {rows, static_cast<int64_t>(t.bytes) / rows}, device_);
  w.type = static_cast<int64_t>(t.type);
  w.rows = rows;
  w.cols = cols;
  return w;
}

Weight Model::matrix_with_bias(const std::string& name, int64_t rows, int64_t cols) {
  Weight w = matrix(name + ".weight", rows, cols);
  if (const GgufTensor* t = file_.find_tensor(name + ".bias")) {
    w.bias = vector(name + ".bias", rows);
    w.bias = Tensor(static_cast<const void*>(t->data), kFloat32, {rows});
    has_biases_ = true;
  }
  return w;
}

Tensor Model::vector(const std::string& name, int64_t size) {
  static constexpr GgmlType kTypes[] = {GgmlType::kF32};
  const GgufTensor& t = file_.tensor(name);
  check_type(file_, t, kTypes);
  if (t.n_dims != 1 || t.dims[0] != size)
    throw Error(file_.name(), name, "shape " + t.dims_text(), "[" + std::to_string(size) + "]");
  weight_bytes_ += static_cast<int64_t>(t.bytes);
  return Tensor(place(t), kFloat32, {size}, device_);
}

Layer Model::layer(int64_t index) {
  const Config& c = config_;
  const std::string prefix = "blk." + std::to_string(index) + ".";
  Layer l;
  l.attn_norm = vector(prefix + "attn_norm.weight", c.hidden_size);
  l.q = matrix_with_bias(prefix + "attn_q", c.q_size(), c.hidden_size);
  l.k = matrix_with_bias(prefix + "attn_k", c.kv_size(), c.hidden_size);
  l.v = matrix_with_bias(prefix + "attn_v", c.kv_size(), c.hidden_size);
  l.attn_out = matrix_with_bias(prefix + "attn_output", c.hidden_size, c.q_size());
  l.ffn_norm = vector(prefix + "ffn_norm.weight", c.hidden_size);
  l.gate = matrix_with_bias(prefix + "ffn_gate", c.intermediate_size, c.hidden_size);
  l.up = matrix_with_bias(prefix + "ffn_up", c.intermediate_size, c.hidden_size);
  l.gate_up = joined(l.gate, l.up);
  l.down = matrix_with_bias(prefix + "ffn_down", c.hidden_size, c.intermediate_size);
  return l;
}

}  // namespace musaic::llm
