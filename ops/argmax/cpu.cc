#include "backends/cpu/entries.h"
#include "backends/cpu/launch.h"
#include "ops/argmax/args.h"

namespace musaic::MUSAIC_TARGET {
namespace {

template <class T>
std::int64_t first_largest(const T* row, std::int64_t size) {
  constexpr std::int64_t kPart = 2048;
  const Entries<T> entries{row, size, from_bits(0xff800000u)};
  float max = entries.absent;
  std::int64_t begin = 0, end = size;  // where the first of the largest lies
  for (std::int64_t i = 0; i < size; i += kPart) {
    const std::int64_t stop = i + kPart < size ? i + kPart : size;
    const float m = largest_lane(entries.maxima(i, stop, [](F32x8) {}));
    if (m > max) {
      max = m;
      begin = i;
      end = stop;
    }
  }
  const std::int64_t found = entries.find(begin, end, max);
  return found < 0 ? 0 : found;
}

}  // namespace

void argmax(const ArgmaxArgs& a, Stream) {
  for_float_kind(a.dtype, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    auto body = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r)
        write_integer(a.out, r, first_largest(row_of<const T>(a.input, r), a.size));
    };
    cpu::parallel(a.num_rows, 1 + 65536 / (a.size + 1), body);
  });
}

}  // namespace musaic::MUSAIC_TARGET
