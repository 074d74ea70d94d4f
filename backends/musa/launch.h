// How a Moore Threads GPU runs a row program: a group a row, blocks over the rows.
#pragma once

#include <algorithm>
#include <string>

#include "backends/backend.h"
#include "backends/cuda/group.h"
#include "musaic/stream.h"

namespace musaic::MUSAIC_TARGET {

template <int kLanes, class Program>
__global__ void __launch_bounds__(kBlockThreads) rows_kernel(const Program program, std::int64_t rows) {
  constexpr int kGroups = kBlockThreads / kLanes;
  const std::int64_t step = std::int64_t{gridDim.x} * kGroups;
  RowGroup<kLanes> group;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kGroups + threadIdx.x / kLanes; row < rows; row += step)
    program(group, row);
}

/// Four rows a block would leave lanes of one hardware warp in different rows where the warp has 128 lanes,
/// and at the last rows some lanes would miss an exchange: there a row takes the whole block.
inline constexpr bool kHasSmallGroups = kHardwareWarp == 32;

/// Instantiates a program's kernels explicitly: mcc has dropped the device code of template kernels that only
/// a helper launched [M-THR].
#if MUSAIC_MUSA_HARDWARE_WARP == 32
#define MUSAIC_ROW_KERNELS(...)                                                           \
  template __global__ void rows_kernel<32, __VA_ARGS__>(const __VA_ARGS__, std::int64_t); \
  template __global__ void rows_kernel<128, __VA_ARGS__>(const __VA_ARGS__, std::int64_t);
#else
#define MUSAIC_ROW_KERNELS(...) \
  template __global__ void rows_kernel<128, __VA_ARGS__>(const __VA_ARGS__, std::int64_t);
#endif

template <int kLanes, class Program>
void launch_groups(musaStream_t stream, std::int64_t rows, const Program& program) {
  constexpr std::int64_t kGroups = kBlockThreads / kLanes, kMostBlocks = 0x7fffffff;
  const std::int64_t blocks = std::min((rows + kGroups - 1) / kGroups, kMostBlocks);
  rows_kernel<kLanes, Program><<<static_cast<unsigned>(blocks), kBlockThreads, 0, stream>>>(program, rows);
}

/// \param row_elements  elements that one row touches, which decides how many lanes share it
template <class Program>
void launch_rows(Stream stream, std::int64_t rows, std::int64_t row_elements, const Program& program) {
  if (rows <= 0) return;
  const auto handle = static_cast<musaStream_t>(stream.handle);
  if constexpr (kHasSmallGroups) {
    if (row_elements <= 2048)
      launch_groups<32>(handle, rows, program);
    else
      launch_groups<128>(handle, rows, program);
  } else {
    launch_groups<128>(handle, rows, program);
  }
  const musaError_t error = musaGetLastError();
  if (error != musaSuccess) throw Error(std::string("musa: a launch failed: ") + musaGetErrorString(error));
}

/// Reports a fault from any thread; the first wins. The record belongs to one device, so a device-wide atomic
/// decides.
MUSAIC_FN void raise_fault(const FaultSink& sink, DeviceFault kind, std::int64_t row, std::int64_t value) {
  FaultRecord* record = sink.record;
  if (atomicCAS(&record->taken, 0u, 1u) == 0u) {
    record->site = sink.site;
    record->row = row;
    record->value = value;
    store_release(&record->kind, static_cast<std::uint32_t>(kind));
  }
}

}  // namespace musaic::MUSAIC_TARGET
