#include "cli/planted.h"

#include "backends/simt/kernel.h"

namespace musaic::cli {
namespace {

__global__ void __launch_bounds__(128) row_sums(const float* x, float* sums, int rows, int n) {
  MUSAIC_LAUNCH_BOUNDS(128);
  MUSAIC_SHARED(float[4], partial);
  const int group = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32),
            row = static_cast<int>(blockIdx.x) * 4 + group;
  if (row < rows) {  // the mistake: where 128 lanes run together, all of them have to reach each exchange
    float sum = 0;
    for (int i = lane; i < n; i += 32) sum += x[static_cast<std::int64_t>(row) * n + i];
    for (int by = 16; by > 0; by /= 2) sum += __shfl_xor_sync(simt::kEveryLane, sum, by, 32);
    if (lane == 0) partial[group] = sum;
  }
  __syncthreads();
  if (row < rows && lane == 0) sums[row] = partial[group];
}

}  // namespace

void planted_row_sums(const float* x, float* sums, int rows, int n) {
  MUSAIC_LAUNCH(row_sums, static_cast<unsigned>((rows + 3) / 4), 128, 0, Stream{}, x, sums, rows, n);
}

}  // namespace musaic::cli
