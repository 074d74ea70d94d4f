// The shape of a llama, from a file's metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace musaic::llm {

class GgufFile;

/// How rotary frequencies are stretched for contexts longer than those of the training.
enum class RopeScaling { kNone, kLinear };

/// The numbers that decide the computation of a llama. Every one of them is inside the range stated here, so
/// that code behind it needs no further checks and no product of them overflows.
struct Config {
  int64_t num_layers;         ///< 1..4096
  int64_t hidden_size;        ///< 1..2^20
  int64_t intermediate_size;  ///< 1..2^22
  int64_t num_heads;          ///< 1..65536
  int64_t num_kv_heads;       ///< divides num_heads
  int64_t head_dim;           ///< 1..4096
  int64_t vocab_size;         ///< 1..2^22, the rows of token_embd.weight
  int64_t context_length;     ///< tokens that the model was made for, 1..2^24
  int64_t rotary_dim;         ///< even, at most head_dim
  float rope_base;            ///< positive, finite
  RopeScaling rope_scaling;
  float rope_factor;  ///< of linear scaling, positive; 1 without scaling
  float norm_eps;     ///< 0 <= eps < 1

  int64_t q_size() const { return num_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }
  /// Bytes that one token takes in the float32 cache of keys and values.
  int64_t cache_bytes_per_token() const { return num_layers * 2 * kv_size() * 4; }

  /// Reads llama.* of the file. Throws musaic::Error naming file and key for another architecture, and for
  /// values that are missing, out of range, contradict each other or ask for what is not supported.
  static Config from_gguf(const GgufFile& file);
};

/// Cosines and sines of all positions: float32 [num_positions, rotary_dim], the first half of a row cosines,
/// the second half sines. Angle of pair i at position p: p / factor * base^(-2 i / rotary_dim) / stretch[i],
/// in float64, rounded once. `stretch` (the file's tensor rope_freqs.weight, which carries the scaling of
/// Llama 3.1 and later) has rotary_dim / 2 entries or none.
void fill_rope_table(const Config& config, const std::vector<float>& stretch, int64_t num_positions,
                     float* table);

}  // namespace musaic::llm
