// A small program in the style of the vendor's public examples: c = a + b, then the sum of c by warps of 32
// lanes. Compiled in the tests; it runs on no machine of ours.
#include <musa_fp16.h>
#include <musa_runtime.h>

#include <cstdio>
#include <vector>

__global__ void vector_add(const float* a, const float* b, float* c, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) c[i] = a[i] + b[i];
}

template <class T>
__global__ void __launch_bounds__(256) block_sums(const T* x, float* sums, int n) {
  __shared__ float of_warp[256 / 32];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float v = i < n ? static_cast<float>(x[i]) : 0.0f;
  for (int step = 16; step > 0; step /= 2)
    v += __shfl_down_sync(0xffffffffu, v, static_cast<unsigned>(step), 32);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = __half2float(__float2half(v));
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0f;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) total += of_warp[w];
    atomicAdd(sums, total);
  }
}
template __global__ void block_sums<float>(const float*, float*, int);

int main() {
  constexpr int kSize = 1000;
  std::vector<float> host(kSize, 1.0f);
  float *a = nullptr, *b = nullptr, *c = nullptr, *sum = nullptr;
  for (float** p : {&a, &b, &c, &sum})
    if (musaMalloc(p, kSize * sizeof(float)) != musaSuccess) return 1;
  musaMemcpy(a, host.data(), kSize * sizeof(float), musaMemcpyHostToDevice);
  musaMemcpy(b, host.data(), kSize * sizeof(float), musaMemcpyHostToDevice);
  musaMemset(sum, 0, sizeof(float));
  vector_add<<<(kSize + 255) / 256, 256>>>(a, b, c, kSize);
  block_sums<float><<<(kSize + 255) / 256, 256>>>(c, sum, kSize);
  float total = 0.0f;
  musaMemcpy(&total, sum, sizeof(float), musaMemcpyDeviceToHost);
  std::printf("%g %s\n", static_cast<double>(total), musaGetErrorString(musaGetLastError()));
  return total == 2.0f * kSize ? 0 : 1;
}
