// The computation, once for every backend: bits are copied, whatever they stand for.
#pragma once

#include "device/device.h"
#include "ops/concat_mla/args.h"

namespace musaic::MUSAIC_TARGET {

MUSAIC_FN void copy_chunk(const FullChunk& c, float* to, const float* from) {
  store8(to + c.begin, load8(from + c.begin));
}
MUSAIC_FN void copy_chunk(const FullChunk& c, std::uint16_t* to, const std::uint16_t* from) {
  store8_u16(to + c.begin, load8_u16(from + c.begin));
}
MUSAIC_FN void copy_chunk(const FullChunk& c, std::uint8_t* to, const std::uint8_t* from) {
  for (int i = 0; i < 8; ++i) to[c.begin + i] = from[c.begin + i];
}
template <class T>
MUSAIC_FN void copy_chunk(const TailChunk& c, T* to, const T* from) {
  for (int i = 0; i < c.count; ++i) to[c.begin + i] = from[c.begin + i];
}

template <class T>
struct ConcatRow {
  ConcatArgs args;

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t row) const {
    T* out = row_of<T>(args.out, row);
    const T* a = row_of<const T>(args.a, row);
    const T* b = row_of<const T>(args.b, row);
    group.each(args.a_size, [&](auto c) { copy_chunk(c, out, a); });
    group.each(args.b_size, [&](auto c) { copy_chunk(c, out + args.a_size, b); });
  }
};

inline void concat_rows(const ConcatArgs& args, Stream stream) {
  const std::int64_t size = args.a_size + args.b_size;
  if (args.element_bytes == 4)
    launch_rows(stream, args.num_rows, size, ConcatRow<float>{args});
  else if (args.element_bytes == 2)
    launch_rows(stream, args.num_rows, size, ConcatRow<std::uint16_t>{args});
  else
    launch_rows(stream, args.num_rows, size, ConcatRow<std::uint8_t>{args});
}

void concat_mla_k(const ConcatArgs& args, Stream stream) { concat_rows(args, stream); }
void concat_mla_absorb_q(const ConcatArgs& args, Stream stream) { concat_rows(args, stream); }

}  // namespace musaic::MUSAIC_TARGET
