// Declarations of the MUSA runtime and device functions that public MUSA code has been seen to use, and of
// nothing else: a name that is missing here is unverified and must not compile. Written from the facts that
// docs/musa.md lists; no vendor header was read. Nothing here has a body, so no result follows from it. Tags
// name the public source.
#pragma once

#include "standin_prelude.h"

#define MUSART_VERSION 50200  // [GG names the macro]

// ---- Host: the runtime ----

enum musaError {
  musaSuccess = 0
};  // [GG, TM]; other values have names, but public code does not depend on them
typedef enum musaError musaError_t;
typedef struct MUevent_st* musaEvent_t;
typedef struct MUgraph_st* musaGraph_t;
typedef struct MUgraphExec_st* musaGraphExec_t;
typedef struct MUgraphNode_st* musaGraphNode_t;
enum musaMemcpyKind {  // [GG]
  musaMemcpyHostToHost,
  musaMemcpyHostToDevice,
  musaMemcpyDeviceToHost,
  musaMemcpyDeviceToDevice,
  musaMemcpyDefault
};
enum musaStreamCaptureMode {  // [TM MUSAGraph.cpp]
  musaStreamCaptureModeGlobal,
  musaStreamCaptureModeThreadLocal,
  musaStreamCaptureModeRelaxed
};
enum musaStreamCaptureStatus {
  musaStreamCaptureStatusNone,
  musaStreamCaptureStatusActive,
  musaStreamCaptureStatusInvalidated
};
enum musaDeviceAttr {  // [GG]
  musaDevAttrMultiProcessorCount,
  musaDevAttrMaxSharedMemoryPerBlockOptin
};
enum musaFuncAttribute { musaFuncAttributeMaxDynamicSharedMemorySize };  // [MU, TL, MA]
struct musaDeviceProp {  // the fields that musaInfo prints and public code reads [GG, D-inst52]
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin, totalConstMem, sharedMemPerMultiprocessor;
  int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate, major, minor;
  int multiProcessorCount, integrated, canMapHostMemory, concurrentKernels, memoryClockRate, memoryBusWidth;
  int l2CacheSize, maxThreadsPerMultiProcessor, cooperativeLaunch;
};
struct musaIpcMemHandle_t {  // [SG, VM]
  char reserved[64];
};
enum : unsigned {  // [GG, TM, SG]
  musaStreamDefault = 0,
  musaStreamNonBlocking = 1,
  musaEventDisableTiming = 2,
  musaHostAllocMapped = 2,
  musaHostRegisterPortable = 1,
  musaHostRegisterReadOnly = 8,
  musaIpcMemLazyEnablePeerAccess = 1
};

extern "C" {
musaError_t musaGetLastError();  // errors [GG]
musaError_t musaPeekAtLastError();
const char* musaGetErrorString(musaError_t error);
const char* musaGetErrorName(musaError_t error);
musaError_t musaMalloc(void** pointer, size_t bytes);  // memory [GG]
musaError_t musaFree(void* pointer);
musaError_t musaMallocHost(void** pointer, size_t bytes);
musaError_t musaFreeHost(void* pointer);
musaError_t musaHostAlloc(void** pointer, size_t bytes, unsigned flags);  // [TM CachingHostAllocator.cpp]
musaError_t musaHostGetDevicePointer(void** device, void* host, unsigned flags);
musaError_t musaHostRegister(void* pointer, size_t bytes, unsigned flags);  // [GG]
musaError_t musaHostUnregister(void* pointer);
musaError_t musaMemcpy(void* to, const void* from, size_t bytes, musaMemcpyKind kind);
musaError_t musaMemcpyAsync(void* to, const void* from, size_t bytes, musaMemcpyKind kind,
                            musaStream_t stream = nullptr);
musaError_t musaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                musaStream_t stream = nullptr);
musaError_t musaMemset(void* to, int value, size_t bytes);
musaError_t musaMemsetAsync(void* to, int value, size_t bytes, musaStream_t stream = nullptr);
musaError_t musaMemGetInfo(size_t* free_bytes, size_t* total_bytes);
musaError_t musaStreamCreateWithFlags(musaStream_t* stream, unsigned flags);  // streams and events [GG]
musaError_t musaStreamDestroy(musaStream_t stream);
musaError_t musaStreamSynchronize(musaStream_t stream);
musaError_t musaStreamWaitEvent(musaStream_t stream, musaEvent_t event, unsigned flags = 0);
musaError_t musaEventCreateWithFlags(musaEvent_t* event, unsigned flags);
musaError_t musaEventCreate(musaEvent_t* event);
musaError_t musaEventDestroy(musaEvent_t event);
musaError_t musaEventRecord(musaEvent_t event, musaStream_t stream = nullptr);
musaError_t musaEventSynchronize(musaEvent_t event);
musaError_t musaEventElapsedTime(float* milliseconds, musaEvent_t begin, musaEvent_t end);
musaError_t musaLaunchHostFunc(musaStream_t stream, void (*function)(void*), void* argument);
musaError_t musaDeviceSynchronize();
musaError_t musaGetDevice(int* device);  // devices [GG]
musaError_t musaSetDevice(int device);
musaError_t musaGetDeviceCount(int* count);
musaError_t musaGetDeviceProperties(musaDeviceProp* properties, int device);
musaError_t musaDeviceGetAttribute(int* value, musaDeviceAttr attribute, int device);
musaError_t musaDeviceCanAccessPeer(int* can, int device, int peer);
musaError_t musaDeviceEnablePeerAccess(int peer, unsigned flags);
musaError_t musaDeviceDisablePeerAccess(int peer);
musaError_t musaIpcGetMemHandle(musaIpcMemHandle_t* handle, void* pointer);  // [SG]
musaError_t musaIpcOpenMemHandle(void** pointer, musaIpcMemHandle_t handle, unsigned flags);
musaError_t musaIpcCloseMemHandle(void* pointer);
musaError_t musaStreamBeginCapture(musaStream_t stream,
                                   musaStreamCaptureMode mode);  // graphs [TM MUSAGraph.cpp]
musaError_t musaStreamEndCapture(musaStream_t stream, musaGraph_t* graph);
musaError_t musaStreamIsCapturing(musaStream_t stream, musaStreamCaptureStatus* status);
musaError_t musaGraphInstantiate(musaGraphExec_t* exec, musaGraph_t graph, musaGraphNode_t* error_node,
                                 char* log,
                                 size_t log_bytes);  // five arguments in public code [TM, GG]
musaError_t musaGraphLaunch(musaGraphExec_t exec, musaStream_t stream);
musaError_t musaGraphGetNodes(musaGraph_t graph, musaGraphNode_t* nodes, size_t* count);
musaError_t musaGraphDestroy(musaGraph_t graph);
musaError_t musaGraphExecDestroy(musaGraphExec_t exec);
}
template <class T>
musaError_t musaMalloc(T** pointer, size_t bytes);
template <class T>
musaError_t musaFuncSetAttribute(T* kernel, musaFuncAttribute attribute, int value);  // [MU, TL, MA]

// ---- Device ----

// Built-in variables [D-cpp]. warpSize is left out: no code of ours may depend on it.
struct uint3 {
  unsigned x, y, z;
};
extern const __device__ uint3 threadIdx;
extern const __device__ uint3 blockIdx;
extern const __device__ dim3 blockDim;
extern const __device__ dim3 gridDim;

// Vectors [GG, SG, MA].
struct __align__(8) int2 {
  int x, y;
};
struct __align__(16) int4 {
  int x, y, z, w;
};
struct __align__(8) uint2 {
  unsigned x, y;
};
struct __align__(16) uint4 {
  unsigned x, y, z, w;
};
struct __align__(8) float2 {
  float x, y;
};
struct __align__(16) float4 {
  float x, y, z, w;
};
__host__ __device__ int2 make_int2(int x, int y);
__host__ __device__ int4 make_int4(int x, int y, int z, int w);
__host__ __device__ uint2 make_uint2(unsigned x, unsigned y);
__host__ __device__ uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w);
__host__ __device__ float2 make_float2(float x, float y);
__host__ __device__ float4 make_float4(float x, float y, float z, float w);

// Barriers and fences [D-warp, GG, MC, DE].
__device__ void __syncthreads();
__device__ int __syncthreads_count(int predicate);
__device__ int __syncthreads_and(int predicate);
__device__ int __syncthreads_or(int predicate);
__device__ void __syncwarp(unsigned mask = 0xffffffffu);
__device__ void __threadfence_block();
__device__ void __threadfence();
__device__ void __threadfence_system();
#if defined(__MUSA_ARCH__) && __MUSA_ARCH__ == 310
__device__ void __syncthreads_lm();  // mp_31 only [TM MUSAMacros.muh, SG]
#endif

// Exchanges and votes. The documentation gives the width a default; here it has none, since the default is
// 128 by document and 32 by measurement on mp_22 [D-warp, M-S4000-51].
#define STANDIN_EXCHANGE(T)                                                      \
  __device__ T __shfl_sync(unsigned mask, T value, int lane, int width);         \
  __device__ T __shfl_up_sync(unsigned mask, T value, unsigned by, int width);   \
  __device__ T __shfl_down_sync(unsigned mask, T value, unsigned by, int width); \
  __device__ T __shfl_xor_sync(unsigned mask, T value, int by, int width);
STANDIN_EXCHANGE(int)
STANDIN_EXCHANGE(unsigned)
STANDIN_EXCHANGE(long)
STANDIN_EXCHANGE(unsigned long)
STANDIN_EXCHANGE(long long)
STANDIN_EXCHANGE(unsigned long long)
STANDIN_EXCHANGE(float)
STANDIN_EXCHANGE(double)
#undef STANDIN_EXCHANGE
__device__ int __all_sync(unsigned mask, int predicate);
__device__ int __any_sync(unsigned mask, int predicate);
__device__ unsigned __ballot_sync(unsigned mask, int predicate);
__device__ unsigned __activemask();

// Atomics [D-atom]. Signed 64-bit addition is unsupported [TL]; the _system forms are left out [MC].
__device__ int atomicAdd(int* p, int v);
__device__ unsigned atomicAdd(unsigned* p, unsigned v);
__device__ unsigned long long atomicAdd(unsigned long long* p, unsigned long long v);
__device__ float atomicAdd(float* p, float v);
__device__ double atomicAdd(double* p, double v);
#define STANDIN_ATOMICS(T)            \
  __device__ T atomicSub(T* p, T v);  \
  __device__ T atomicExch(T* p, T v); \
  __device__ T atomicMin(T* p, T v);  \
  __device__ T atomicMax(T* p, T v);  \
  __device__ T atomicAnd(T* p, T v);  \
  __device__ T atomicOr(T* p, T v);   \
  __device__ T atomicXor(T* p, T v);  \
  __device__ T atomicCAS(T* p, T old, T v);
STANDIN_ATOMICS(int)
STANDIN_ATOMICS(unsigned)
#undef STANDIN_ATOMICS
__device__ float atomicExch(float* p, float v);
__device__ unsigned long long atomicExch(unsigned long long* p, unsigned long long v);
__device__ unsigned long long atomicCAS(unsigned long long* p, unsigned long long old, unsigned long long v);
__device__ unsigned atomicInc(unsigned* p, unsigned limit);
__device__ unsigned atomicDec(unsigned* p, unsigned limit);

// Arithmetic and bits [GG, SG, MA, M-S4000-51]. Absent, since no public MUSA code was seen to use them:
// __fmaf_rn, __fsqrt_rn, __fadd_rn, __fmul_rn, __umulhi and the like.
__device__ float fmaf(float a, float b, float c);
__device__ float rsqrtf(float a);
__device__ float expf(float a);
__device__ float __expf(float a);
__device__ float __logf(float a);
__device__ float __sinf(float a);
__device__ float __cosf(float a);
__device__ float __fdiv_rn(float a, float b);
__device__ float __frcp_rn(float a);    // approximate [MA, SG, JIT-RMS]
__device__ float __frsqrt_rn(float a);  // approximate [MA, SG, JIT-RMS]
__device__ int __float_as_int(float a);
__device__ unsigned __float_as_uint(float a);
__device__ float __int_as_float(int a);
__device__ float __uint_as_float(unsigned a);
__device__ int __popc(unsigned a);
__device__ int __clz(int a);
__device__ unsigned __brev(unsigned a);
__device__ int __dp4a(int a, int b, int c);
__device__ long long clock64();
__device__ void __trap();
template <class T>
__device__ T __ldg(const T* p);  // [MA]
