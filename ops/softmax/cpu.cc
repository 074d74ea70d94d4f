#include "backends/cpu/entries.h"
#include "backends/cpu/launch.h"
#include "backends/cpu/quotient.h"
#include "ops/softmax/args.h"

namespace musaic::MUSAIC_TARGET {
namespace {

template <class T, class Out>
class SoftmaxRow {
 public:
  SoftmaxRow(const T* x, Out* y, std::int64_t size) : entries_{x, size, from_bits(0xff800000u)}, y_(y) {}

  void run(float temperature) const {
    bool numbers = temperature == temperature;
    const float max = largest(numbers);
    const float infinity = from_bits(0x7f800000u);
    if (!numbers || max == infinity) return fill(from_bits(0x7fc00000u));
    if (max == -infinity) return fill(0.0f);
    if (temperature < kSmallestTemperature) {
      const std::int64_t first = entries_.find(0, entries_.size, max);
      fill(0.0f);
      MUSAIC_TARGET::store(y_ + first, 1.0f);
      return;
    }
    const float inverse = inverse_temperature(temperature);
    const Quotient quotient(mass(max, inverse));
    entries_.each(0, entries_.size, [&](std::int64_t i, F32x8 x) {
      I32x8 high, low;
      weight_scale(0).split(relative_probability(x, max, inverse), high, low);
      float w[8];
      store8(w, fma(to_float(high), all<F32x8>(1048576.0f), to_float(low)));
      if (i + 8 <= entries_.size) return quotient.store(y_ + i, w);
      Out last[8];
      quotient.store(last, w);
      for (std::int64_t j = 0; i + j < entries_.size; ++j) y_[i + j] = last[j];
    });
  }

 private:
  float largest(bool& numbers) const {
    Mask8 bad{};
    const float max = largest_lane(entries_.maxima(0, entries_.size, [&](F32x8 x) { bad |= ~(x == x); }));
    numbers = numbers && !any(bad);
    return max;
  }

  std::uint64_t mass(float max, float inverse) const {
    constexpr std::int64_t kPart = 8192;  // 1024 entries a lane
    std::uint64_t total = 0;
    for (std::int64_t begin = 0; begin < entries_.size; begin += kPart) {
      const std::int64_t end = begin + kPart < entries_.size ? begin + kPart : entries_.size;
      I32x8 high{}, low{};
      entries_.each(begin, end, [&](std::int64_t, F32x8 x) {
        I32x8 h, l;
        weight_scale(0).split(relative_probability(x, max, inverse), h, l);
        high += h;
        low += l;
      });
      total += sum_of_parts(high, low);
    }
    return total;
  }

  void fill(float v) const {
    for (std::int64_t i = 0; i < entries_.size; ++i) MUSAIC_TARGET::store(y_ + i, v);
  }

  Entries<T> entries_;
  Out* y_;
};

}  // namespace

void softmax(const SoftmaxArgs& a, Stream) {
  for_float_kind(a.dtype, [&](auto* t) {
    for_float_kind(a.out_dtype, [&](auto* u) {
      using T = std::remove_pointer_t<decltype(t)>;
      using Out = std::remove_pointer_t<decltype(u)>;
      auto body = [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r)
          SoftmaxRow<T, Out>(row_of<const T>(a.logits, r), row_of<Out>(a.out, r), a.size)
              .run(read_float(a.temperature, r, a.temperature_scalar));
      };
      cpu::parallel(a.num_rows, 1 + 8192 / (a.size + 1), body);
    });
  });
}

}  // namespace musaic::MUSAIC_TARGET
