// A small llama with random weights, for machines that have no model at hand, and for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llm/gguf.h"

namespace musaic::llm {

/// What to write. The numbers must make a right llama; nothing is checked here.
struct TinyModel {
  uint64_t seed = 0;
  int64_t num_layers = 2, hidden_size = 64, intermediate_size = 96;
  int64_t num_heads = 4, num_kv_heads = 2;
  int64_t context_length = 512;
  GgmlType type = GgmlType::kQ4_1;  ///< of the layers' matrices: F32, Q4_1 or Q8_0
  bool tied = true;                 ///< no output matrix of its own
  bool biases = false;              ///< on queries, keys and values
};

/// The bytes of a GGUF file. The vocabulary is the 256 bytes, some merges, and the markers of ChatML. Its
/// words mean nothing; the same `tiny` gives the same bytes everywhere.
std::vector<std::byte> tiny_model_bytes(const TinyModel& tiny);

/// Writes them to `path`; throws musaic::Error when that fails.
void write_tiny_model(const TinyModel& tiny, const std::string& path);

}  // namespace musaic::llm
