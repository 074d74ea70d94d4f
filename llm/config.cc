#include "llm/config.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>

#include "llm/gguf.h"
#include "musaic/error.h"

namespace musaic::llm {
namespace {

constexpr std::string_view kArchitectures = "\"llama\"";

[[noreturn]] void fail(const GgufFile& file, std::string_view key, const std::string& got,
                       const std::string& expected) {
  throw Error(file.name(), std::string(key), got, expected);
}

int64_t get(const GgufFile& file, std::string_view key, int64_t most) {
  return static_cast<int64_t>(file.get_u64(key, 1, static_cast<uint64_t>(most)));
}

int64_t get_or(const GgufFile& file, std::string_view key, int64_t most, int64_t otherwise) {
  return file.find(key) ? get(file, key, most) : otherwise;
}

float in_range(const GgufFile& file, std::string_view key, float value, bool ok, const char* expected) {
  if (!ok) fail(file, key, std::to_string(value), expected);
  return value;
}

void read_rope(const GgufFile& file, Config& c) {
  c.rotary_dim = get_or(file, "llama.rope.dimension_count", c.head_dim, c.head_dim);
  if (c.rotary_dim % 2 != 0)
    fail(file, "llama.rope.dimension_count", std::to_string(c.rotary_dim), "an even number");
  const float base = file.find_f32("llama.rope.freq_base").value_or(10000.0f);
  c.rope_base = in_range(file, "llama.rope.freq_base", base, base > 0 && std::isfinite(base),
                         "a positive, finite number");
  c.rope_scaling = RopeScaling::kNone;
  c.rope_factor = 1.0f;

  const std::string_view kind = file.find_string("llama.rope.scaling.type").value_or("");
  // Files from before the key scaling.type say linear scaling with scale_linear.
  const std::optional<float> old = file.find_f32("llama.rope.scale_linear");
  if (kind == "linear" || (kind.empty() && old.has_value())) {
    const std::string_view key =
        old && kind.empty() ? "llama.rope.scale_linear" : "llama.rope.scaling.factor";
    const float factor = file.get_f32(key);
    c.rope_scaling = RopeScaling::kLinear;
    c.rope_factor =
        in_range(file, key, factor, factor > 0 && std::isfinite(factor), "a positive, finite number");
  } else if (!kind.empty() && kind != "none") {
    fail(file, "llama.rope.scaling.type", quoted(kind),
         "\"none\", \"linear\", or no such key and the tensor rope_freqs.weight");
  }
}

}  // namespace

Config Config::from_gguf(const GgufFile& file) {
  const std::string_view architecture = file.get_string("general.architecture");
  if (architecture != "llama")
    fail(file, "general.architecture", quoted(architecture), "one of " + std::string(kArchitectures));
  if (file.find_u64("llama.expert_count").value_or(0) > 0)
    fail(file, "llama.expert_count", std::to_string(*file.find_u64("llama.expert_count")),
         "0: mixtures of experts are not supported");

  Config c{};
  c.num_layers = get(file, "llama.block_count", 4096);
  c.hidden_size = get(file, "llama.embedding_length", 1 << 20);
  c.intermediate_size = get(file, "llama.feed_forward_length", 1 << 22);
  c.context_length = get(file, "llama.context_length", 1 << 24);
  c.num_heads = get(file, "llama.attention.head_count", 65536);
  c.num_kv_heads = get_or(file, "llama.attention.head_count_kv", c.num_heads, c.num_heads);
  if (c.num_heads % c.num_kv_heads != 0)
    fail(file, "llama.attention.head_count_kv", std::to_string(c.num_kv_heads),
         "a divisor of llama.attention.head_count = " + std::to_string(c.num_heads));
  if (!file.find("llama.attention.key_length") && c.hidden_size % c.num_heads != 0)
    fail(file, "llama.attention.head_count", std::to_string(c.num_heads),
         "a divisor of llama.embedding_length = " + std::to_string(c.hidden_size));
  c.head_dim = get_or(file, "llama.attention.key_length", 4096, c.hidden_size / c.num_heads);
  if (c.head_dim < 1 || c.head_dim > 4096)
    fail(file, "llama.attention.head_count", "a head of " + std::to_string(c.head_dim),
         "a head of 1 to 4096");
  const int64_t value_dim = get_or(file, "llama.attention.value_length", 4096, c.head_dim);
  if (value_dim != c.head_dim)
    fail(file, "llama.attention.value_length", std::to_string(value_dim),
         "the key length " + std::to_string(c.head_dim));
  read_rope(file, c);
  const float eps = file.get_f32("llama.attention.layer_norm_rms_epsilon");
  c.norm_eps = in_range(file, "llama.attention.layer_norm_rms_epsilon", eps, eps >= 0 && eps < 1,
                        "a number in [0, 1)");

  const GgufTensor& embedding = file.tensor("token_embd.weight");
  c.vocab_size = embedding.dims[1];
  if (c.vocab_size > 1 << 22)
    fail(file, "token_embd.weight", "shape " + embedding.dims_text(), "at most 4194304 rows");
  const int64_t stated = get_or(file, "llama.vocab_size", 1 << 22, c.vocab_size);
  if (stated != c.vocab_size)
    fail(file, "llama.vocab_size", std::to_string(stated),
         std::to_string(c.vocab_size) + ", the rows of token_embd.weight");
  return c;
}

void fill_rope_table(const Config& config, const std::vector<float>& stretch, int64_t num_positions,
                     float* table) {
  const int64_t half = config.rotary_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(config.rotary_dim);
    double frequency = std::pow(static_cast<double>(config.rope_base), exponent) / config.rope_factor;
    if (!stretch.empty()) frequency /= stretch[static_cast<size_t>(i)];
    for (int64_t p = 0; p < num_positions; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      float* row = table + p * config.rotary_dim;
      row[i] = static_cast<float>(std::cos(angle));
      row[half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace musaic::llm
