// MUSA's names as CUDA's, so that the MUSA sources compile with nvcc and run on NVIDIA GPUs. That shows
// indexing, barriers, exchanges and the numbers of this backend's own code; it shows nothing about mcc or
// MUSA's intrinsics.
#pragma once

#include <cuda_runtime.h>

// As mcc does, in the device pass alone.
#if defined(__CUDA_ARCH__)
#define __MUSA_ARCH__ (MUSAIC_MUSA_HARDWARE_WARP == 32 ? 310 : 220)
#endif

// What MUSA has and CUDA lacks.
#define __syncthreads_lm __syncthreads
#define __builtin_nontemporal_load(p) __ldcs(p)
#define __builtin_nontemporal_store(v, p) __stcs(p, v)

using musaError_t = cudaError_t;
using musaStream_t = cudaStream_t;
using musaEvent_t = cudaEvent_t;
#define musaSuccess cudaSuccess
#define musaGetLastError cudaGetLastError
#define musaGetErrorString cudaGetErrorString
#define musaMalloc cudaMalloc
#define musaFree cudaFree
#define musaMemcpy cudaMemcpy
#define musaMemcpyHostToDevice cudaMemcpyHostToDevice
#define musaMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define musaMemcpyDeviceToDevice cudaMemcpyDeviceToDevice
#define musaMemcpyAsync cudaMemcpyAsync
#define musaMemset cudaMemset
#define musaMemsetAsync cudaMemsetAsync
#define musaHostAlloc cudaHostAlloc
#define musaHostAllocMapped cudaHostAllocMapped
#define musaFreeHost cudaFreeHost
#define musaStreamSynchronize cudaStreamSynchronize
#define musaDeviceSynchronize cudaDeviceSynchronize
