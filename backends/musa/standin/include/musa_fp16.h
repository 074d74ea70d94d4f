// Half: the type and its conversions alone. Half arithmetic is undeclared in some SDKs and has no body in
// others [M-S4000-31, IO], so its names do not exist here.
#pragma once

#include "musa_runtime.h"

struct __align__(2) __half {
  unsigned short standin_bits;
};
typedef __half half;
struct __align__(4) __half2 {
  __half x, y;
};
typedef __half2 half2;

__device__ __half __float2half(float a);  // [GG, M-S4000-51]
__device__ __half __float2half_rn(float a);
__device__ float __half2float(__half a);
__device__ __half2 __float22half2_rn(float2 a);  // [TL]
