// A textbook block scan (Hillis and Steele), as it stands in many .cu files, run and checked without a GPU.
// Two edits were needed: the launch and the shared array.
#include <cstdio>
#include <vector>

#include "backends/simt/kernel.h"
#include "backends/simt/memory.h"
#include "backends/simt/report.h"

__global__ void scan(const int* in, int* out, int n) {
  MUSAIC_SHARED(int[2][256], buffer);  // __shared__ int buffer[2][256];
  const unsigned t = threadIdx.x;
  int side = 0;
  buffer[side][t] = static_cast<int>(t) < n ? in[t] : 0;
  __syncthreads();
  for (unsigned offset = 1; offset < blockDim.x; offset *= 2) {
    side = 1 - side;
    buffer[side][t] = buffer[1 - side][t] + (t >= offset ? buffer[1 - side][t - offset] : 0);
    __syncthreads();
  }
  if (static_cast<int>(t) < n) out[t] = buffer[side][t];
}

int main() {
  using namespace musaic;
  constexpr int n = 200;
  std::vector<int> values(n), result(n);
  for (int i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = i % 7;
  bool right = true;
  for (const simt::DeviceRecord* target = simt::targets(); target->name != nullptr; ++target) {
    simt::use_target(target->name);
    auto* in = static_cast<int*>(simt::allocate(n * 4));
    auto* out = static_cast<int*>(simt::allocate(n * 4));
    simt::copy_to_device(in, values.data(), n * 4);
    MUSAIC_LAUNCH(scan, 1, 256, 0, Stream{}, in, out, n);  // scan<<<1, 256>>>(in, out, n);
    simt::copy_from_device(result.data(), out, n * 4);
    int sum = 0;
    bool same = true;
    for (std::size_t i = 0; i < result.size(); ++i) same = same && result[i] == (sum += values[i]);
    const auto reports = simt::take_reports();
    for (const simt::Report& r : reports) std::printf("%s\n", r.text().c_str());
    std::printf("%-15s %s, %zu findings\n", target->name, same ? "right" : "wrong", reports.size());
    right = right && same && reports.empty();
    simt::release(in);
    simt::release(out);
  }
  return right ? 0 : 1;
}
