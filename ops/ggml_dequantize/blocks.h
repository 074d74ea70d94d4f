// The weight formats of GGUF files that the operators compute with: which there are and what a block takes.
#pragma once

#include <cstdint>

namespace musaic {

class Check;
class Tensor;

/// The file format's own numbers.
enum class GgmlType : std::int32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30,
};

struct GgmlLayout {
  GgmlType type;
  const char* name;
  std::int64_t block_elements;
  std::int64_t block_bytes;
};

inline constexpr GgmlLayout kGgmlLayouts[] = {
    {GgmlType::kF32, "F32", 1, 4},       {GgmlType::kF16, "F16", 1, 2},
    {GgmlType::kQ4_0, "Q4_0", 32, 18},   {GgmlType::kQ4_1, "Q4_1", 32, 20},
    {GgmlType::kQ5_0, "Q5_0", 32, 22},   {GgmlType::kQ5_1, "Q5_1", 32, 24},
    {GgmlType::kQ8_0, "Q8_0", 32, 34},   {GgmlType::kQ4_K, "Q4_K", 256, 144},
    {GgmlType::kQ5_K, "Q5_K", 256, 176}, {GgmlType::kQ6_K, "Q6_K", 256, 210},
    {GgmlType::kBF16, "BF16", 1, 2},
};

/// Blocks of one element: the weight is stored as plain numbers.
constexpr bool is_plain(const GgmlLayout& layout) { return layout.block_elements == 1; }

constexpr std::int64_t ggml_blocks(const GgmlLayout& layout, std::int64_t elements) {
  return elements / layout.block_elements + (elements % layout.block_elements != 0 ? 1 : 0);
}

/// The layout of a type number; an Error that names `op`, the type and those that there are for any other
/// number.
const GgmlLayout& checked_ggml_layout(const char* op, std::int64_t type);

/// Bytes of `rows` rows of `elements` elements, each padded to whole blocks; an Error for sizes below zero or
/// beyond int64.
std::int64_t checked_ggml_bytes(const char* op, const GgmlLayout& layout, std::int64_t rows,
                                std::int64_t elements);

/// Plain formats are read as numbers of their type, at aligned addresses.
void check_plain_alignment(const Check& check, const GgmlLayout& layout, const Tensor& weight);

}  // namespace musaic
