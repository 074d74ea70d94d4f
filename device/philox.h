// The counter-based generator Philox-4x32-10 (Salmon et al., 2011).
#pragma once

#include "primitives.h"

namespace musaic::MUSAIC_TARGET {

struct PhiloxBlock {
  std::uint32_t word[4];
};

MUSAIC_FN PhiloxBlock philox4x32(PhiloxBlock counter, std::uint64_t key) {
  std::uint32_t key0 = static_cast<std::uint32_t>(key), key1 = static_cast<std::uint32_t>(key >> 32);
  PhiloxBlock c = counter;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p = std::uint64_t{0xd2511f53u} * c.word[0];
    const std::uint64_t q = std::uint64_t{0xcd9e8d57u} * c.word[2];
    c = {{static_cast<std::uint32_t>(q >> 32) ^ c.word[1] ^ key0, static_cast<std::uint32_t>(q),
          static_cast<std::uint32_t>(p >> 32) ^ c.word[3] ^ key1, static_cast<std::uint32_t>(p)}};
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return c;
}

/// The library's stream of 64-bit numbers r_0, r_1, ... r_15: block j / 2 of the counter (8 offset + j / 2,
/// subsequence), its low half first. Offsets below 2^61 share no block.
MUSAIC_FN std::uint64_t random_bits(std::uint64_t seed, std::uint64_t offset, std::uint64_t subsequence,
                                    int j) {
  const std::uint64_t position = 8 * offset + static_cast<std::uint64_t>(j / 2);
  const PhiloxBlock out =
      philox4x32({{static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
                   static_cast<std::uint32_t>(subsequence), static_cast<std::uint32_t>(subsequence >> 32)}},
                 seed);
  const int half = j % 2 * 2;
  return out.word[half] | (std::uint64_t{out.word[half + 1]} << 32);
}

}  // namespace musaic::MUSAIC_TARGET
