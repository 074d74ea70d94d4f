// Quotients of exact integers, rounded once to a storage type.
#pragma once

#include "device/number.h"
#include "device/weights.h"

namespace musaic::MUSAIC_TARGET {

/// Rounds w / sum for the weights of one row. A double estimate, within 8 units of its last place, decides
/// unless it is that close to a number of 25 bits, where the next bit could change a rounding to 24 bits or
/// fewer; there the integers are compared.
class Quotient {
 public:
  explicit Quotient(std::uint64_t sum) : sum_(sum), inverse_(1.0 / static_cast<double>(sum)) {}

  /// Writes round(w / sum) for eight weights, given as floats (every weight has at most 24 significant bits).
  template <class T>
  MUSAIC_FN void store(T* out, const float* w) const {
    double q[8];
    bool open[8];
    bool any_open = false;
    for (int i = 0; i < 8; ++i) q[i] = static_cast<double>(w[i]) * inverse_;
    for (int i = 0; i < 8; ++i) {
      open[i] = ((bits_of(q[i]) + kMargin) & kBelow25Bits) <= 2 * kMargin && w[i] != 0.0f;
      any_open |= open[i];
    }
    if (any_open)
      for (int i = 0; i < 8; ++i)
        if (open[i]) q[i] = decide(static_cast<std::uint64_t>(w[i]), bits_of(q[i]));
    for (int i = 0; i < 8; ++i) narrow(out + i, q[i]);
  }

 private:
  static constexpr std::uint64_t kBelow25Bits = (std::uint64_t{1} << 28) - 1, kMargin = 16;

  static MUSAIC_FN std::uint64_t bits_of(double q) { return __builtin_bit_cast(std::uint64_t, q); }
  static MUSAIC_FN void narrow(float* p, double q) { *p = static_cast<float>(q); }
  template <class T>
  static MUSAIC_FN void narrow(T* p, double q) {
    // Round to odd at 24 bits; then one rounding to 11 bits or fewer is the rounding of q itself.
    const std::uint64_t bits = bits_of(q);
    const std::uint64_t rest = (std::uint64_t{1} << 29) - 1;
    const float cut = static_cast<float>(__builtin_bit_cast(double, bits & ~rest));
    MUSAIC_TARGET::store(p, from_bits(as_bits(cut) | ((bits & rest) != 0 ? 1u : 0u)));
  }

  /// The number of 25 bits next to the estimate where the quotient equals it, else a double on the quotient's
  /// side of it.
  __attribute__((noinline)) double decide(std::uint64_t w, std::uint64_t bits) const {
    const std::uint64_t near = (bits + kMargin) & ~kBelow25Bits;
    // near = m 2^-shift with m < 2^25, and shift <= 24 + 62 since the quotient is at least 1 / 2^62.
    const std::uint64_t m = ((near & ((std::uint64_t{1} << 52) - 1)) | (std::uint64_t{1} << 52)) >> 28;
    const int shift = 1023 + 24 - static_cast<int>(near >> 52);
    const int order = compare(shift_left(w, shift), multiply_wide(m, sum_));
    return __builtin_bit_cast(double, order == 0 ? near : order > 0 ? near + 1 : near - 1);
  }

  std::uint64_t sum_;
  double inverse_;
};

}  // namespace musaic::MUSAIC_TARGET
