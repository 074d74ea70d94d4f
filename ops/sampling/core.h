// The rules of drawing that hold on every backend; only the search for the entries differs.
#pragma once

#include "device/philox.h"
#include "device/weights.h"

namespace musaic::MUSAIC_TARGET {

inline constexpr int kCandidates = 8;

/// The parameters of one row, after their edge values: what each leaves to do.
struct SamplingRule {
  bool valid;                 // no parameter is a NaN
  bool first_only;            // the first entry of the order is the token
  float inverse_temperature;  // logits only
  std::int64_t top_k;         // 0: no filter
  float top_p;                // in (0, 1), or 1: no filter
  float min_p;                // in (0, 1], or 0: no filter
  bool top_k_first;
};

MUSAIC_FN SamplingRule sampling_rule(float temperature, std::int64_t top_k, float top_p, float min_p,
                                     std::int64_t vocab_size, bool top_k_first) {
  SamplingRule r{};
  r.valid = temperature == temperature && top_p == top_p && min_p == min_p;
  r.first_only = temperature < kSmallestTemperature || top_k == 1 || top_p <= 0.0f;
  r.inverse_temperature = r.first_only ? 1.0f : inverse_temperature(temperature);
  r.top_k = top_k > 0 && top_k < vocab_size ? top_k : 0;
  r.top_p = top_p < 1.0f ? top_p : 1.0f;
  r.min_p = min_p > 0.0f ? (min_p < 1.0f ? min_p : 1.0f) : 0.0f;
  r.top_k_first = top_k_first;
  return r;
}

/// The mass before an entry must be below this for top_p in (0, 1): max(1, ceil(top_p * mass)).
MUSAIC_FN std::uint64_t top_p_threshold(float top_p, std::uint64_t mass) {
  const std::uint32_t bits = as_bits(top_p), exponent = bits >> 23;
  // top_p = mantissa * 2^-shift.
  const std::uint32_t mantissa = exponent == 0 ? bits : (bits & 0x7fffffu) | 0x800000u;
  const int shift = 150 - static_cast<int>(exponent == 0 ? 1 : exponent);
  const std::uint64_t t = shift_right_up(multiply_wide(mantissa, mass), shift);
  return t > 0 ? t : 1;
}

/// The random state of one output.
struct Draw {
  std::uint64_t seed, offset, subsequence;

  /// A point of [0, mass), in proportion; the token is the first whose inclusive prefix exceeds it.
  MUSAIC_FN std::uint64_t point(int j, std::uint64_t mass) const {
    return multiply_high(random_bits(seed, offset, subsequence, j), mass);
  }
};

/// A place in the total order: value descending, then index ascending.
struct Place {
  float value;
  std::int64_t index;
};
MUSAIC_FN bool before(Place a, Place b) {
  return a.value > b.value || (a.value == b.value && a.index < b.index);
}

}  // namespace musaic::MUSAIC_TARGET
