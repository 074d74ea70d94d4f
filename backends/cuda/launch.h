// How a GPU runs a row program: a group a row, blocks over the rows.
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

template <int kLanes, class Program>
void launch_groups(cudaStream_t stream, std::int64_t rows, const Program& program) {
  constexpr std::int64_t kGroups = kBlockThreads / kLanes, kMostBlocks = 0x7fffffff;
  const std::int64_t blocks = std::min((rows + kGroups - 1) / kGroups, kMostBlocks);
  rows_kernel<kLanes><<<static_cast<unsigned>(blocks), kBlockThreads, 0, stream>>>(program, rows);
}

/// \param row_elements  elements that one row touches, which decides how many lanes share it
template <class Program>
void launch_rows(Stream stream, std::int64_t rows, std::int64_t row_elements, const Program& program) {
  if (rows <= 0) return;
  const auto handle = static_cast<cudaStream_t>(stream.handle);
  if (row_elements <= 2048)
    launch_groups<kWarpLanes>(handle, rows, program);
  else
    launch_groups<kBlockThreads>(handle, rows, program);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) throw Error(std::string("cuda: a launch failed: ") + cudaGetErrorString(error));
}

/// Reports a fault from any thread; the first wins.
MUSAIC_FN void raise_fault(const FaultSink& sink, DeviceFault kind, std::int64_t row, std::int64_t value) {
  FaultRecord* record = sink.record;
  if (atomicCAS_system(&record->taken, 0u, 1u) == 0u) {
    record->site = sink.site;
    record->row = row;
    record->value = value;
    __threadfence_system();
    *static_cast<volatile std::uint32_t*>(&record->kind) = static_cast<std::uint32_t>(kind);
  }
}

}  // namespace musaic::MUSAIC_TARGET
