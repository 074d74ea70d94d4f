// What clang's CUDA mode needs to compile a launch, out of the reach of the code that it compiles: the names
// are poisoned at the end. The stand-in includes this file before any other.
#pragma once

#include <stdlib.h>

// Qualifiers [D-cpp, GG, MA]. __noinline__ is left out: as a macro it breaks headers of the C++ library.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

struct dim3 {
  unsigned x, y, z;
  __attribute__((host))
  __attribute__((device)) constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1)
      : x(vx), y(vy), z(vz) {}
};
typedef struct MUstream_st* musaStream_t;

extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes = 0,
                                                musaStream_t stream = nullptr);
extern "C" int __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream);
extern "C" int cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                size_t shared_bytes, musaStream_t stream);
#pragma GCC poison __cudaPushCallConfiguration __cudaPopCallConfiguration cudaLaunchKernel
