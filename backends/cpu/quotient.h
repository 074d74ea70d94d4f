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
    four(out, w);
    four(out + 4, w + 4);
  }

 private:
  typedef double F64x4 __attribute__((vector_size(32)));
  typedef std::int64_t I64x4 __attribute__((vector_size(32)));
  static constexpr std::int64_t kBelow25Bits = (std::int64_t{1} << 28) - 1, kMargin = 16;

  template <class T>
  MUSAIC_FN void four(T* out, const float* w) const {
    F64x4 q = widen4(w) * inverse_;
    const I64x4 below = (__builtin_bit_cast(I64x4, q) + kMargin) & kBelow25Bits;
    const I64x4 open = (below <= 2 * kMargin) & (q != 0.0);
    if (any4(open))
      for (int i = 0; i < 4; ++i)
        if (open[i] != 0) q[i] = decide(static_cast<std::uint64_t>(w[i]), bits_of(q[i]));
    narrow4(out, q);
  }

  static MUSAIC_FN F64x4 widen4(const float* w) {
#if defined(__AVX2__)
    return _mm256_cvtps_pd(_mm_loadu_ps(w));
#else
    return F64x4{static_cast<double>(w[0]), static_cast<double>(w[1]), static_cast<double>(w[2]),
                 static_cast<double>(w[3])};
#endif
  }
  static MUSAIC_FN bool any4(I64x4 m) {
#if defined(__AVX2__)
    return _mm256_movemask_pd(__builtin_bit_cast(F64x4, m)) != 0;
#else
    return (m[0] | m[1] | m[2] | m[3]) != 0;
#endif
  }
  static MUSAIC_FN void narrow4(float* out, F64x4 q) {
#if defined(__AVX2__)
    _mm_storeu_ps(out, _mm256_cvtpd_ps(q));
#else
    for (int i = 0; i < 4; ++i) out[i] = static_cast<float>(q[i]);
#endif
  }
  template <class T>
  static MUSAIC_FN void narrow4(T* out, F64x4 q) {
    for (int i = 0; i < 4; ++i) narrow(out + i, q[i]);
  }

  static MUSAIC_FN std::uint64_t bits_of(double q) { return __builtin_bit_cast(std::uint64_t, q); }
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
    const std::uint64_t near =
        (bits + static_cast<std::uint64_t>(kMargin)) & ~static_cast<std::uint64_t>(kBelow25Bits);
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
