// Products of 64-bit numbers, in 128 bits; no compiler extension, so that every backend compiles it.
#pragma once

#include "primitives.h"

namespace musaic::MUSAIC_TARGET {

struct U128 {
  std::uint64_t high, low;
};

MUSAIC_FN std::uint64_t low_half(std::uint64_t a) { return static_cast<std::uint32_t>(a); }

MUSAIC_FN U128 multiply_wide(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t a0 = low_half(a), a1 = a >> 32, b0 = low_half(b), b1 = b >> 32;
  const std::uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + low_half(middle);
  return {a1 * b1 + (middle >> 32) + (other >> 32), (other << 32) | low_half(low)};
}

/// High 64 bits of a * b.
MUSAIC_FN std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) { return multiply_wide(a, b).high; }

MUSAIC_FN U128 shift_left(std::uint64_t a, int shift) {
  if (shift == 0) return {0, a};
  if (shift < 64) return {a >> (64 - shift), a << shift};
  return {shift < 128 ? a << (shift - 64) : 0, 0};
}

/// ceil(a / 2^shift) for shift >= 0; the result must fit.
MUSAIC_FN std::uint64_t shift_right_up(U128 a, int shift) {
  if (shift >= 128) return (a.high | a.low) != 0;
  if (shift == 0) return a.low;
  const U128 floor = shift >= 64 ? U128{0, a.high >> (shift - 64)}
                                 : U128{a.high >> shift, (a.low >> shift) | (a.high << (64 - shift))};
  const U128 back = shift_left(floor.low, shift);
  return floor.low + (back.low != a.low || back.high != a.high ? 1 : 0);
}

/// -1, 0 or 1 as a is below, equal to or above b.
MUSAIC_FN int compare(U128 a, U128 b) {
  if (a.high != b.high) return a.high < b.high ? -1 : 1;
  return a.low == b.low ? 0 : a.low < b.low ? -1 : 1;
}

}  // namespace musaic::MUSAIC_TARGET
