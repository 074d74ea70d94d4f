#include "llm/tiny.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <span>

#include "llm/gguf_writer.h"
#include "llm/utf8.h"
#include "musaic/error.h"

namespace musaic::llm {
namespace {

/// SplitMix64: a few lines, and the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-23f - 1.0f; }  // [-1, 1)

 private:
  uint64_t state_;
};

/// A power of two as a half.
uint16_t half_of_power(int exponent) { return static_cast<uint16_t>((exponent + 15) << 10); }

std::string random_matrix(Random& random, GgmlType type, int64_t rows, int64_t cols, float scale) {
  const GgmlTypeInfo& info = ggml_type_info(type);
  std::string bytes;
  for (int64_t block = 0; block < rows * cols / info.block_elements; ++block) {
    if (type == GgmlType::kF32) {
      GgufWriter::put(bytes, random.uniform() * scale);
      continue;
    }
    // Quantised: values in about [-1/2, 1/2], or half of that in every second block.
    const int shift = static_cast<int>(random.next() >> 63);
    if (type == GgmlType::kQ4_1) {
      const int exponent = -4 - shift;
      GgufWriter::put(bytes, half_of_power(exponent));
      GgufWriter::put(bytes, static_cast<uint16_t>(0x8000 | half_of_power(exponent + 3)));  // -8 steps
    } else {
      GgufWriter::put(bytes, half_of_power(-8 - shift));
    }
    const int64_t values = type == GgmlType::kQ4_1 ? 16 : 32;
    for (int64_t i = 0; i < values; ++i) bytes += static_cast<char>(random.next() >> 56);
  }
  return bytes;
}

std::span<const std::byte> as_data(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

struct Writer {
  GgufWriter out;
  Random random;

  void matrix(const std::string& name, GgmlType type, int64_t rows, int64_t cols) {
    out.add_tensor(name, type, {cols, rows}, as_data(random_matrix(random, type, rows, cols, 0.4f)));
  }
  void vector(const std::string& name, int64_t size, float offset, float scale) {
    std::vector<float> values(static_cast<size_t>(size));
    for (float& v : values) v = offset + scale * random.uniform();
    out.add_tensor(name, GgmlType::kF32, {size}, values);
  }
};

/// The printable stand-ins of the 256 bytes in byte-level vocabularies, in the order of the bytes.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens;
  char32_t next = 256;
  for (char32_t b = 0; b < 256; ++b) {
    const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    utf8_append(tokens.emplace_back(), itself ? b : next++);
  }
  return tokens;
}

void write_vocabulary(GgufWriter& out, size_t& vocab_size) {
  static constexpr const char* kMerges[][2] = {{"t", "h"}, {"th", "e"}, {"\u0120", "the"}, {"i", "n"},
                                               {"e", "r"}, {"a", "n"},  {"an", "d"},       {"o", "n"}};
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  std::vector<int32_t> types(tokens.size(), 3);
  for (const std::string& t : byte_tokens()) tokens.push_back(t);
  std::vector<std::string> merges;
  for (const auto& m : kMerges) {
    tokens.push_back(std::string(m[0]) + m[1]);
    merges.push_back(std::string(m[0]) + " " + m[1]);
  }
  types.resize(tokens.size(), 1);
  vocab_size = tokens.size();
  out.add("tokenizer.ggml.model", "gpt2")
      .add("tokenizer.ggml.pre", "smollm")
      .add("tokenizer.ggml.tokens", tokens)
      .add("tokenizer.ggml.token_type", types)
      .add("tokenizer.ggml.merges", merges)
      .add("tokenizer.ggml.bos_token_id", uint32_t{1})
      .add("tokenizer.ggml.eos_token_id", uint32_t{2})
      .add("tokenizer.ggml.add_bos_token", false)
      .add("tokenizer.chat_template", "<|im_start|>system\nYou speak in random words.<|im_end|>\n");
}

GgufWriter make(const TinyModel& tiny) {
  Writer w{GgufWriter(), Random(tiny.seed)};
  const auto u32 = [](int64_t n) { return static_cast<uint32_t>(n); };
  w.out.add("general.architecture", "llama")
      .add("general.name", "tiny random llama, seed " + std::to_string(tiny.seed))
      .add("general.description", "Random weights: its words mean nothing.")
      .add("llama.block_count", u32(tiny.num_layers))
      .add("llama.context_length", u32(tiny.context_length))
      .add("llama.embedding_length", u32(tiny.hidden_size))
      .add("llama.feed_forward_length", u32(tiny.intermediate_size))
      .add("llama.attention.head_count", u32(tiny.num_heads))
      .add("llama.attention.head_count_kv", u32(tiny.num_kv_heads))
      .add("llama.rope.freq_base", 10000.0f)
      .add("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  size_t vocab = 0;
  write_vocabulary(w.out, vocab);

  const auto vocab_size = static_cast<int64_t>(vocab);
  const int64_t hidden = tiny.hidden_size, inner = tiny.intermediate_size;
  const int64_t kv = hidden / tiny.num_heads * tiny.num_kv_heads;
  w.matrix("token_embd.weight", GgmlType::kQ8_0, vocab_size, hidden);
  for (int64_t i = 0; i < tiny.num_layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    w.vector(prefix + "attn_norm.weight", hidden, 1.0f, 0.2f);
    w.matrix(prefix + "attn_q.weight", tiny.type, hidden, hidden);
    w.matrix(prefix + "attn_k.weight", tiny.type, kv, hidden);
    w.matrix(prefix + "attn_v.weight", tiny.type, kv, hidden);
    if (tiny.biases) {
      w.vector(prefix + "attn_q.bias", hidden, 0.0f, 0.5f);
      w.vector(prefix + "attn_k.bias", kv, 0.0f, 0.5f);
      w.vector(prefix + "attn_v.bias", kv, 0.0f, 0.5f);
    }
    w.matrix(prefix + "attn_output.weight", tiny.type, hidden, hidden);
    w.vector(prefix + "ffn_norm.weight", hidden, 1.0f, 0.2f);
    w.matrix(prefix + "ffn_gate.weight", tiny.type, inner, hidden);
    w.matrix(prefix + "ffn_up.weight", tiny.type, inner, hidden);
    w.matrix(prefix + "ffn_down.weight", tiny.type, hidden, inner);
  }
  w.vector("output_norm.weight", hidden, 1.0f, 0.2f);
  if (!tiny.tied) w.matrix("output.weight", GgmlType::kQ8_0, vocab_size, hidden);
  return std::move(w.out);
}

}  // namespace

std::vector<std::byte> tiny_model_bytes(const TinyModel& tiny) { return make(tiny).bytes(); }

void write_tiny_model(const TinyModel& tiny, const std::string& path) {
  const std::vector<std::byte> bytes = tiny_model_bytes(tiny);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw Error("cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace musaic::llm
