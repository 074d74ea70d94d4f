// What the kernels of the probes take, for their callers.
#pragma once

#include <cstdint>

#include "musaic/stream.h"

namespace musaic {

/// The probes that are computed on every backend, element by element: out[i] from a[i], b[i], c[i].
enum class RowProbe {
  kFma,            // float32: a b + c, rounded once
  kProductAndSum,  // float32: a b rounded, then + c
  kProduct,        // float32
  kQuotient,       // float32: a / b
  kRoot,           // float32
  kWidenHalf,      // a: float16; out: float32
  kNarrowHalf,     // the other way
  kWidenBFloat16,  // a: bfloat16; out: float32
  kNarrowBFloat16
};

/// Those of GPUs alone.
enum class GpuProbe {
  kNothing,    // an empty launch
  kExchange,   // out: uint32 [7, 128], what the 128 threads of a block get in each of seven exchanges
  kWarpSize,   // out: uint32 [1]
  kAtomics,    // out: uint32 [3], 16 blocks of 64: additions, a flag that is swapped in, those who swapped it
  kHandshake,  // two blocks; memory: uint32 [66], out: uint32 [2]: right words, waits that were too long
  kShared,     // out: uint32 [8], right words of each of eight blocks that hold kProbeSharedBytes
  kParameters,  // out: uint32 [1], the sum of 512 words that are passed by value
  kOffset,      // out[i + offset] = i: uint32 [256]
  kSlowWrite,   // out[0] = value after a while
  kNext,        // out[1] = out[0] + 1
  kIncrement    // out[0] += 1
};

/// Shared memory of a block that every device has to have: the smallest of the targets.
inline constexpr int kProbeSharedBytes = 28 * 1024;
inline constexpr int kProbeRounds = 16;  // of the handshake
inline constexpr int kExchanges = 7;     // xor 1, 2, 4, 8, 16; from lane 5; up by 3

struct RowProbeArgs {
  RowProbe probe;
  std::int64_t count;
  const void *a, *b, *c;
  void* out;
};
struct GpuProbeArgs {
  GpuProbe probe;
  std::uint32_t* out;
  std::uint32_t* memory;
  std::int64_t offset;
  std::uint32_t value;
};

}  // namespace musaic
