// What device/ builds on, for the CPU: eight lanes as one vector of the compiler. Compiled once per
// instruction set (MUSAIC_TARGET names it); nothing here may be called from another set, so all of it is
// inlined.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define MUSAIC_FN inline __attribute__((always_inline))

namespace musaic::MUSAIC_TARGET {

typedef float F32x8 __attribute__((vector_size(32)));
typedef std::int32_t I32x8 __attribute__((vector_size(32)));
typedef std::uint32_t U32x8 __attribute__((vector_size(32)));
/// All bits of a lane set: true.
typedef std::int32_t Mask8 __attribute__((vector_size(32)));

MUSAIC_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MUSAIC_FN float sqrt(float a) { return __builtin_sqrtf(a); }
/// Correctly rounded quotient.
MUSAIC_FN float div(float a, float b) { return a / b; }
MUSAIC_FN std::uint32_t as_bits(float a) { return __builtin_bit_cast(std::uint32_t, a); }
MUSAIC_FN float from_bits(std::uint32_t a) { return __builtin_bit_cast(float, a); }
MUSAIC_FN std::int32_t to_int(float a) { return static_cast<std::int32_t>(a); }
MUSAIC_FN float to_float(std::int32_t a) { return static_cast<float>(a); }
MUSAIC_FN float select(bool m, float a, float b) { return m ? a : b; }
MUSAIC_FN float larger(float a, float b) { return a > b ? a : b; }
MUSAIC_FN float smaller(float a, float b) { return a < b ? a : b; }

MUSAIC_FN F32x8 fma(F32x8 a, F32x8 b, F32x8 c) {
#if defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  F32x8 r;
  for (int i = 0; i < 8; ++i) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return r;
#endif
}
MUSAIC_FN F32x8 sqrt(F32x8 a) {
#if defined(__AVX2__)
  return _mm256_sqrt_ps(a);
#else
  F32x8 r;
  for (int i = 0; i < 8; ++i) r[i] = __builtin_sqrtf(a[i]);
  return r;
#endif
}
MUSAIC_FN F32x8 div(F32x8 a, F32x8 b) { return a / b; }
MUSAIC_FN U32x8 as_bits(F32x8 a) { return __builtin_bit_cast(U32x8, a); }
MUSAIC_FN F32x8 from_bits(U32x8 a) { return __builtin_bit_cast(F32x8, a); }
MUSAIC_FN I32x8 to_int(F32x8 a) { return __builtin_convertvector(a, I32x8); }
MUSAIC_FN F32x8 to_float(I32x8 a) { return __builtin_convertvector(a, F32x8); }
MUSAIC_FN F32x8 select(Mask8 m, F32x8 a, F32x8 b) {
#if defined(__AVX2__)
  return _mm256_blendv_ps(b, a, __builtin_bit_cast(F32x8, m));
#else
  return __builtin_bit_cast(F32x8, (m & __builtin_bit_cast(I32x8, a)) | (~m & __builtin_bit_cast(I32x8, b)));
#endif
}
/// a > b ? a : b, which is b where one of them is NaN.
MUSAIC_FN F32x8 larger(F32x8 a, F32x8 b) {
#if defined(__AVX2__)
  return _mm256_max_ps(a, b);
#else
  return select(a > b, a, b);
#endif
}
/// a < b ? a : b, which is b where one of them is NaN.
MUSAIC_FN F32x8 smaller(F32x8 a, F32x8 b) {
#if defined(__AVX2__)
  return _mm256_min_ps(a, b);
#else
  return select(a < b, a, b);
#endif
}
MUSAIC_FN bool any(Mask8 m) {
#if defined(__AVX2__)
  return _mm256_movemask_ps(__builtin_bit_cast(F32x8, m)) != 0;
#else
  std::int32_t r = 0;
  for (int i = 0; i < 8; ++i) r |= m[i];
  return r != 0;
#endif
}
MUSAIC_FN F32x8 splat(F32x8, float a) { return F32x8{a, a, a, a, a, a, a, a}; }
MUSAIC_FN U32x8 splat(U32x8, std::uint32_t a) { return U32x8{a, a, a, a, a, a, a, a}; }
MUSAIC_FN I32x8 splat(I32x8, std::int32_t a) { return I32x8{a, a, a, a, a, a, a, a}; }
/// Lane numbers 0 to 7.
MUSAIC_FN I32x8 lane_index() { return I32x8{0, 1, 2, 3, 4, 5, 6, 7}; }

MUSAIC_FN F32x8 load8(const float* p) {
  F32x8 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
MUSAIC_FN void store8(float* p, F32x8 v) { std::memcpy(p, &v, sizeof v); }

/// Eight 16-bit codes, zero-extended.
MUSAIC_FN U32x8 load8_u16(const void* p) {
#if defined(__AVX2__)
  return __builtin_bit_cast(U32x8, _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))));
#else
  std::uint16_t h[8];
  std::memcpy(h, p, sizeof h);
  U32x8 r;
  for (int i = 0; i < 8; ++i) r[i] = h[i];
  return r;
#endif
}
/// The low 16 bits of each lane; the high bits are zero.
MUSAIC_FN void store8_u16(void* p, U32x8 v) {
#if defined(__AVX2__)
  const __m256i packed = _mm256_packus_epi32(__builtin_bit_cast(__m256i, v), __builtin_bit_cast(__m256i, v));
  const __m256i low = _mm256_permute4x64_epi64(packed, 0x08);
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_castsi256_si128(low));
#else
  std::uint16_t h[8];
  for (int i = 0; i < 8; ++i) h[i] = static_cast<std::uint16_t>(v[i]);
  std::memcpy(p, h, sizeof h);
#endif
}
#if defined(__F16C__)
inline constexpr bool kHasHalfConversion = true;
MUSAIC_FN F32x8 load8_half(const void* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
MUSAIC_FN void store8_half(void* p, F32x8 v) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
#else
inline constexpr bool kHasHalfConversion = false;
MUSAIC_FN F32x8 load8_half(const void*) { return F32x8{}; }
MUSAIC_FN void store8_half(void*, F32x8) {}
#endif

/// Sums of eight vectors, lane j of the result that of a[j], each by the tree of adjacent pairs
/// ((0+1)+(2+3)) + ((4+5)+(6+7)).
MUSAIC_FN F32x8 tree_sums8(const F32x8* a) {
#if defined(__AVX2__)
  const __m256 ab = _mm256_hadd_ps(a[0], a[1]), cd = _mm256_hadd_ps(a[2], a[3]);
  const __m256 ef = _mm256_hadd_ps(a[4], a[5]), gh = _mm256_hadd_ps(a[6], a[7]);
  const __m256 abcd = _mm256_hadd_ps(ab, cd), efgh = _mm256_hadd_ps(ef, gh);
  return _mm256_add_ps(_mm256_permute2f128_ps(abcd, efgh, 0x20), _mm256_permute2f128_ps(abcd, efgh, 0x31));
#else
  F32x8 r;
  for (int j = 0; j < 8; ++j) {
    const F32x8 v = a[j];
    r[j] = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
  }
  return r;
#endif
}
MUSAIC_FN float tree_sum(F32x8 v) {
  return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

/// Lanes 0, 2, 4, 6 of a, then of b; and lanes 1, 3, 5, 7.
MUSAIC_FN F32x8 even_lanes(F32x8 a, F32x8 b) {
#if defined(__AVX2__)
  const __m256d halves = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
  return _mm256_castpd_ps(_mm256_permute4x64_pd(halves, 0xd8));
#else
  return F32x8{a[0], a[2], a[4], a[6], b[0], b[2], b[4], b[6]};
#endif
}
MUSAIC_FN F32x8 odd_lanes(F32x8 a, F32x8 b) {
#if defined(__AVX2__)
  const __m256d halves = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
  return _mm256_castpd_ps(_mm256_permute4x64_pd(halves, 0xd8));
#else
  return F32x8{a[1], a[3], a[5], a[7], b[1], b[3], b[5], b[7]};
#endif
}
/// The first and the second half of a[0], b[0], a[1], b[1], ..., a[7], b[7].
MUSAIC_FN F32x8 interleave_low(F32x8 a, F32x8 b) {
#if defined(__AVX2__)
  return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20);
#else
  return F32x8{a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]};
#endif
}
MUSAIC_FN F32x8 interleave_high(F32x8 a, F32x8 b) {
#if defined(__AVX2__)
  return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31);
#else
  return F32x8{a[4], b[4], a[5], b[5], a[6], b[6], a[7], b[7]};
#endif
}

}  // namespace musaic::MUSAIC_TARGET
