// bfloat16: the type, from mp_22 on [TM MUSADtype.muh], and its conversions.
#pragma once

#include "musa_runtime.h"

#if !defined(__MUSA_ARCH__) || __MUSA_ARCH__ >= 220
struct __align__(2) __mt_bfloat16 {
  unsigned short standin_bits;
};
struct __align__(4) __mt_bfloat162 {
  __mt_bfloat16 x, y;
};

__device__ __mt_bfloat16 __float2bfloat16(float a);  // [GG, M-S4000-51]
__device__ __mt_bfloat16 __float2bfloat16_rn(float a);
__device__ float __bfloat162float(__mt_bfloat16 a);
__device__ __mt_bfloat162 __float22bfloat162_rn(float2 a);
__device__ float2 __bfloat1622float2(__mt_bfloat162 a);
#endif
