// A block a row: its maximum, the sum of its weights, and their quotients, each rounded once.
#pragma once

#include "backends/backend.h"
#include "device/row_search.h"
#include "ops/softmax/args.h"

namespace musaic::MUSAIC_TARGET {
namespace {

/// Rounds w / sum for the weights of one row, without float64: two floats hold the estimate, which decides unless the
/// quotient is so close to where the rounding changes that the integers have to be compared.
class QuotientOfMass {
 public:
  explicit MUSAIC_FN QuotientOfMass(std::uint64_t mass) : mass_(mass) {
    const float high = mass_as_float(mass);
    // The integer behind `high` differs from the mass by less than 2^38.
    const float low = rest_as_float(mass, high);
    inverse_ = div(1.0f, high);
    inverse_rest_ = fma(-low, inverse_, fma(-high, inverse_, 1.0f)) * inverse_;
  }

  /// To nearest even, in float32, for a share floor(e * 2^40) * 2^-40 of the largest weight.
  MUSAIC_FN float nearest(float share) const {
    const Estimate q = estimate(share);
    const float power =
        from_bits(as_bits(q.nearest) & 0x7f800000u);  // floats below a power of two are twice as dense
    const float half = power * (q.rest < 0.0f && power == q.nearest ? 2.98023224e-8f : 5.96046448e-8f);
    if ((q.rest < 0.0f ? -q.rest : q.rest) < half - q.margin) return q.nearest;
    return share > 0.0f ? exact_nearest(share, q.nearest) : 0.0f;
  }
  /// Truncated to 24 bits, with the last bit set if anything was cut off: rounding it again, to 16 bits, is right.
  MUSAIC_FN float odd(float share) const {
    if (!(share > 0.0f)) return 0.0f;
    const Estimate q = estimate(share);
    int side = q.rest > q.margin ? 1 : q.rest < -q.margin ? -1 : 0;
    if (side == 0) side = side_of(share, 2 * std::uint64_t{mantissa(q.nearest)}, exponent(q.nearest) - 1);
    const std::uint32_t bits = as_bits(q.nearest);
    return from_bits(side == 0 ? bits : side > 0 ? bits | 1u : (bits - 1u) | 1u);
  }

 private:
  struct Estimate {
    float nearest, rest, margin;  // the quotient is nearest + rest, within the margin
  };
  MUSAIC_FN Estimate estimate(float share) const {
    const float p = share * inverse_, e = fma(share, inverse_, -p) + share * inverse_rest_;
    const float nearest = p + e;
    return {nearest, e - (nearest - p), nearest * 1.13686838e-13f};  // 2^-43
  }

  static MUSAIC_FN float rest_as_float(std::uint64_t mass, float high) {
    const std::uint64_t h = std::uint64_t{mantissa(high)};
    const int shift = exponent(high) + 40;
    const std::uint64_t rounded = shift >= 0 ? h << shift : h >> -shift;
    return rounded > mass ? -mass_as_float(rounded - mass) : mass_as_float(mass - rounded);
  }

  // x = mantissa * 2^exponent, for normal numbers.
  static MUSAIC_FN std::uint32_t mantissa(float x) { return (as_bits(x) & 0x7fffffu) | 0x800000u; }
  static MUSAIC_FN int exponent(float x) { return static_cast<int>(as_bits(x) >> 23) - 150; }

  /// -1, 0 or 1 as the quotient is below, equal to or above m * 2^e.
  MUSAIC_FN int side_of(float share, std::uint64_t m, int e) const {
    // share = w * 2^-40 and the mass are integers: w against m * 2^e * mass; e < 0 since the quotient is at most 1.
    const int up = exponent(share) + 40;
    const std::uint64_t w =
        up >= 0 ? std::uint64_t{mantissa(share)} << up : std::uint64_t{mantissa(share)} >> -up;
    return compare(shift_left(w, -e), multiply_wide(m, mass_));
  }
  MUSAIC_FN float exact_nearest(float share, float r) const {
    const std::uint64_t m = mantissa(r);
    const int e = exponent(r);
    const int above = side_of(share, 2 * m + 1, e - 1);
    if (above > 0 || (above == 0 && (m & 1) != 0)) return from_bits(as_bits(r) + 1u);
    const int below = m == 0x800000u ? side_of(share, 4 * m - 1, e - 2) : side_of(share, 2 * m - 1, e - 1);
    if (below < 0 || (below == 0 && (m & 1) != 0 && m != 0x800000u)) return from_bits(as_bits(r) - 1u);
    return r;
  }

  std::uint64_t mass_;
  float inverse_, inverse_rest_;
};

template <class T>
class SoftmaxBlock {
 public:
  MUSAIC_FN SoftmaxBlock(SearchShared& shared, const SoftmaxArgs& a, std::int64_t r)
      : a_(a), r_(r), row_(shared, row_of<const T>(a.logits, r), a.size) {}

  MUSAIC_FN void run(float temperature) {
    const bool good = row_.template scan<false>(0);
    const float infinity = from_bits(0x7f800000u);
    if (!row_.is_numbers() || temperature != temperature || row_.max() == infinity)
      return fill(from_bits(0x7fc00000u));
    if (!good) return fill(0.0f);
    if (temperature < kSmallestTemperature) {
      const int first = row_.first_largest();
      write([&](int i, float) { return i == first ? 1.0f : 0.0f; });
      return;
    }
    row_.set_temperature(inverse_temperature(temperature));
    const QuotientOfMass quotient(row_.row_mass());
    if (a_.out_dtype == FloatKind::kF32)
      write([&](int, float x) { return quotient.nearest(weighed_share(row_.share(x))); });
    else
      write([&](int, float x) { return quotient.odd(weighed_share(row_.share(x))); });
  }

 private:
  /// floor(e * 2^40) * 2^-40.
  static MUSAIC_FN float weighed_share(float e) {
    const float high = add_toward_zero(e, 8.0f) - 8.0f;
    return high + (add_toward_zero(e - high, 7.62939453e-6f) - 7.62939453e-6f);  // exact: 24 bits at most
  }

  MUSAIC_FN void fill(float value) {
    write([&](int, float) { return value; });
  }
  template <class F>
  MUSAIC_FN void write(F f) const {
    sync_block();  // others have read what is written here, if in place
    if (a_.out_dtype == FloatKind::kF32)
      write_as(row_of<float>(a_.out, r_), f);
    else if (a_.out_dtype == FloatKind::kF16)
      write_as(row_of<Half>(a_.out, r_), f);
    else
      write_as(row_of<BFloat16>(a_.out, r_), f);
  }
  template <class Out, class F>
  MUSAIC_FN void write_as(Out* out, F f) const {
    row_.each_vector([&](int i, const F32x8& x, bool is_full) {
      const F32x8 y = lanes([&](int j) { return f(i + j, x[j]); });
      if (is_full) {
        store8(out + i, y);
        return;
      }
      for (int j = 0; j < 8; ++j)
        if (i + j < row_.size()) store(out + i + j, y[j]);
    });
  }

  const SoftmaxArgs& a_;
  std::int64_t r_;
  RowSearch<T, true> row_;
};

template <class T>
__global__ void __launch_bounds__(kSearchThreads) softmax_kernel(const SoftmaxArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kSearchThreads);
  MUSAIC_SHARED(SearchShared, shared);
  for (std::int64_t r = blockIdx.x; r < a.num_rows; r += gridDim.x)
    SoftmaxBlock<T>(shared, a, r).run(read_float(a.temperature, r, a.temperature_scalar));
}

}  // namespace

void softmax(const SoftmaxArgs& a, Stream stream) {
  const auto blocks = static_cast<unsigned>(a.num_rows < 65535 ? a.num_rows : 65535);
  const unsigned threads = a.size <= 8192 ? 128
                           : a.num_rows >= 256
                               ? 512
                               : kSearchThreads;  // any power of two of warps gives the same bits
  if (a.dtype == FloatKind::kF32)
    MUSAIC_LAUNCH(softmax_kernel<float>, blocks, threads, 0, stream, a);
  else if (a.dtype == FloatKind::kF16)
    MUSAIC_LAUNCH(softmax_kernel<Half>, blocks, threads, 0, stream, a);
  else
    MUSAIC_LAUNCH(softmax_kernel<BFloat16>, blocks, threads, 0, stream, a);
}

}  // namespace musaic::MUSAIC_TARGET
