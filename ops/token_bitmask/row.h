// The computation, once for every backend.
#pragma once

#include "device/device.h"
#include "ops/token_bitmask/args.h"

namespace musaic::MUSAIC_TARGET {

/// A long row is cut into parts of this many tokens, which threads and blocks share; a multiple of the chunk.
inline constexpr std::int64_t kBitmaskPart = 8192;

MUSAIC_FN int lanes_of(const FullChunk&) { return 8; }
MUSAIC_FN int lanes_of(const TailChunk& c) { return c.count; }

template <class T>
struct TokenBitmaskPart {
  TokenBitmaskArgs a;
  std::int64_t parts;  // of one row

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t index) const {
    const std::int64_t entry = parts == 1 ? index : index / parts,
                       begin = (index - entry * parts) * kBitmaskPart;
    std::int64_t row = entry;
    if (a.indices.data != nullptr) {
      row = read_integer(a.indices, entry);
      if (row < 0 || row >= a.num_rows) {
        if (begin == 0)
          group.each(1, [&](auto) { raise_fault(a.bad_index, DeviceFault::kIndexOutOfRange, entry, row); });
        return;
      }
      // A row that is named again is the first one's work.
      for (std::int64_t i = 0; i < entry; ++i)
        if (read_integer(a.indices, i) == row) return;
    }
    T* x = static_cast<T*>(a.logits) + row * a.logits_stride + begin;
    const std::int32_t* words = a.mask + row * a.mask_stride;
    const std::int64_t left = a.vocab_size - begin;
    group.each(left < kBitmaskPart ? left : kBitmaskPart, [&](auto c) {
      const std::int64_t token = begin + c.begin;  // a multiple of 8
      const std::uint32_t word =
          token / 32 < a.num_words ? static_cast<std::uint32_t>(words[token / 32]) : 0u;
      const std::uint32_t bits = (word >> (token % 32)) & 0xffu;
      const float lowest = from_bits(0xff800000u);
      if (bits == 0) return c.store(x, all<F32x8>(lowest));
      // Allowed values are not touched, so that their bits stay.
      for (int i = 0; i < lanes_of(c); ++i)
        if ((bits >> i & 1u) == 0) store(x + c.begin + i, lowest);
    });
  }
};

void apply_token_bitmask_inplace(const TokenBitmaskArgs& args, Stream stream) {
  const std::int64_t parts = (args.vocab_size + kBitmaskPart - 1) / kBitmaskPart;
  for_float_kind(args.dtype, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    launch_rows(stream, args.num_entries * parts,
                args.vocab_size < kBitmaskPart ? args.vocab_size : kBitmaskPart,
                TokenBitmaskPart<T>{args, parts});
  });
}

}  // namespace musaic::MUSAIC_TARGET
