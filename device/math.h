// Elementary functions with one definition for every backend: only correctly rounded operations in a fixed
// order, so the bits are the same wherever it is compiled. V is float or F32x8. Polynomials are minimax fits
// of our own; the stated errors are asserted over all floats by the exhaustive test.
#pragma once

#include "device/vec.h"

namespace musaic::MUSAIC_TARGET {

/// e^x = p * 2^n: returns p, and n in the low bits of `shifted`, above the bits of 1.5 * 2^23.
template <class V>
MUSAIC_FN V exp_parts(V x, V& shifted) {
  // Adding 1.5 * 2^23 leaves round(x / ln 2) in the low mantissa bits.
  const V magic = all<V>(12582912.0f);
  shifted = fma(x, all<V>(1.44269504f), magic);
  const V n = shifted - magic;
  // ln 2 = high + low; the product with the high part is exact since it has 15 trailing zero bits.
  const V r = fma(n, all<V>(-1.42860677e-6f), fma(n, all<V>(-0.693145752f), x));
  V q = all<V>(1.39421644e-3f);
  q = fma(q, r, all<V>(8.36377591e-3f));
  q = fma(q, r, all<V>(4.16663624e-2f));
  q = fma(q, r, all<V>(0.166665733f));
  q = fma(q, r, all<V>(0.5f));
  return fma(q, r * r, r) + all<V>(1.0f);
}

/// e^x for x in [-80, 80]: the bits of exp() at fewer steps, since 2^n is a normal float.
template <class V>
MUSAIC_FN V exp_near_zero(V x) {
  V shifted;
  const V p = exp_parts(x, shifted);
  return from_bits(as_bits(p) + (as_bits(shifted) << 23));
}

/// e^x for x in [-104, 89] or NaN.
template <class V>
MUSAIC_FN V exp_in_range(V x) {
  using Int = typename IntOf<V>::Signed;
  V shifted;
  const V p = exp_parts(x, shifted);
  // 2^n in two factors: each is a normal float, and only the last product rounds.
  const Int e = __builtin_bit_cast(Int, as_bits(shifted) - all_bits<V>(0x4b400000u));
  const Int half = e >> 1;
  const auto power = [](Int k) {
    return from_bits(__builtin_bit_cast(typename IntOf<V>::Unsigned, (k + 127) << 23));
  };
  return (p * power(half)) * power(e - half);
}

/// e^x, at most 1.1 ulp off; 0 below -103.98, infinity above 88.73, NaN stays NaN, subnormal results are
/// rounded once.
template <class V>
MUSAIC_FN V exp(V x) {
  return exp_in_range(larger(all<V>(-104.0f), smaller(all<V>(89.0f), x)));
}

/// Natural logarithm, at most 1 ulp off for normal and subnormal x > 0; log(0) = -infinity, log(infinity) =
/// infinity, NaN below 0.
template <class V>
MUSAIC_FN V log(V x) {
  using Int = typename IntOf<V>::Signed;
  // Subnormals are scaled up by 2^24 first.
  const auto tiny = x < all<V>(1.17549435e-38f);
  const V scaled = select(tiny, x * all<V>(16777216.0f), x);
  // x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).
  const auto offset = as_bits(scaled) - all_bits<V>(0x3f3504f3u);
  const Int k = __builtin_bit_cast(Int, offset) >> 23;
  const V mantissa = from_bits((offset & all_bits<V>(0x007fffffu)) + all_bits<V>(0x3f3504f3u));
  const V exponent = to_float(k) + select(tiny, all<V>(-24.0f), all<V>(0.0f));
  const V f = mantissa - all<V>(1.0f);
  V p = all<V>(6.74663857e-2f);
  p = fma(p, f, all<V>(-0.116756514f));
  p = fma(p, f, all<V>(0.118881628f));
  p = fma(p, f, all<V>(-0.124055892f));
  p = fma(p, f, all<V>(0.142195523f));
  p = fma(p, f, all<V>(-0.166679963f));
  p = fma(p, f, all<V>(0.200021192f));
  p = fma(p, f, all<V>(-0.250000089f));
  p = fma(p, f, all<V>(0.333333135f));
  const V f2 = f * f;
  // k ln2_high + (f + (k ln2_low - f^2/2 + f^3 P(f))), small terms first.
  const V small = fma(f2 * f, p, fma(all<V>(-0.5f), f2, exponent * all<V>(1.42860677e-6f)));
  const V y = fma(exponent, all<V>(0.693145752f), f + small);
  const V infinity = all<V>(from_bits(0x7f800000u));
  return select(x == all<V>(0.0f), all<V>(from_bits(0xff800000u)),
                select(x < all<V>(0.0f), all<V>(from_bits(0x7fc00000u)), select(x < infinity, y, x)));
}

/// Hyperbolic tangent, at most 2 ulp off; -0 stays -0.
template <class V>
MUSAIC_FN V tanh(V x) {
  const auto sign = as_bits(x) & all_bits<V>(0x80000000u);
  const V a = from_bits(as_bits(x) ^ sign);
  const V z = a * a;
  V p = all<V>(-5.70498686e-3f);
  p = fma(p, z, all<V>(2.06390861e-2f));
  p = fma(p, z, all<V>(-5.37397154e-2f));
  p = fma(p, z, all<V>(0.133314416f));
  p = fma(p, z, all<V>(-0.333332807f));
  const V near = fma(z * a, p, a);
  const V far = all<V>(1.0f) - div(all<V>(2.0f), exp(a + a) + all<V>(1.0f));
  return from_bits(as_bits(select(a < all<V>(0.625f), near, far)) | sign);
}

/// 1 / (1 + e^-x), at most 3 ulp off, or 2^-149 where that is more; NaN stays NaN.
template <class V>
MUSAIC_FN V logistic(V x) {
  // e^-|x| cannot overflow; for x < 0 the quotient is e^x / (1 + e^x).
  const V e = exp_in_range(larger(all<V>(-104.0f), from_bits(as_bits(x) | all_bits<V>(0x80000000u))));
  return div(select(x < all<V>(0.0f), e, all<V>(1.0f)), all<V>(1.0f) + e);
}

/// The standard normal distribution function, (1 + erf(x / sqrt 2)) / 2, at most 6 ulp off down to its
/// subnormal results; 0 below -15, NaN stays NaN.
template <class V>
MUSAIC_FN V normal_cdf(V x) {
  const V sign_free = from_bits(as_bits(x) & all_bits<V>(0x7fffffffu));
  const V a = smaller(all<V>(15.0f), sign_free);
  // The tail Q(a) = e^(-a^2 / 2) P(t) / (a + 3.5) with t = (a - 3.5) / (a + 3.5): P varies by a factor of
  // four only.
  const V r = div(all<V>(1.0f), a + all<V>(3.5f));
  const V t = (a - all<V>(3.5f)) * r;
  V p = all<V>(1.10284891e-4f);
  p = fma(p, t, all<V>(4.21166624e-4f));
  p = fma(p, t, all<V>(-4.94976819e-4f));
  p = fma(p, t, all<V>(-3.1748123e-3f));
  p = fma(p, t, all<V>(6.49324525e-3f));
  p = fma(p, t, all<V>(1.7406268e-2f));
  p = fma(p, t, all<V>(-0.116053067f));
  p = fma(p, t, all<V>(0.315425068f));
  p = fma(p, t, all<V>(-0.565561771f));
  p = fma(p, t, all<V>(0.744416058f));
  // a^2 is up to 225, whose rounding the exponential would magnify: square + rest is exact.
  const V square = a * a;
  const V rest = fma(a, a, all<V>(0.0f) - square);
  const V e = exp_in_range(larger(all<V>(-104.0f), all<V>(-0.5f) * square));
  const V q = fma(e, all<V>(-0.5f) * rest, e) * (p * r);
  return select(x > all<V>(0.0f), all<V>(1.0f) - q, q);
}

/// x / (1 + e^-x), at most 4 ulp off, or 2^-142 where that is more (x below -87); silu(-infinity) = -0.
template <class V>
MUSAIC_FN V silu(V x) {
  // Below -104 the result is -0 whatever x is; cut off there, an infinity meets no zero.
  const V v = larger(all<V>(-104.0f), x);
  return v * logistic(v);
}

/// x (1 + erf(x / sqrt 2)) / 2, at most 7 ulp off, or 2^-145 where that is more (x below -13);
/// gelu(-infinity) = -0.
template <class V>
MUSAIC_FN V gelu(V x) {
  const V v = larger(all<V>(-15.0f), x);
  return v * normal_cdf(v);
}

/// x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), computed as x / (1 + e^-2u). Its relative
/// error is at most (5 + 3 |2u|) 2^-24 for x < 0 and 4 ulp for x >= 0, or 2^-145 where that is more;
/// gelu_tanh(-infinity) = -0.
template <class V>
MUSAIC_FN V gelu_tanh(V x) {
  const V v = larger(all<V>(-12.0f), x);
  // 2 sqrt(2 / pi) and 0.044715 times that.
  const V slope = fma(v * v, all<V>(7.13548163e-2f), all<V>(1.59576912f));
  return v * logistic(v * slope);
}

}  // namespace musaic::MUSAIC_TARGET
