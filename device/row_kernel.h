// How a GPU runs a row program: a group a row, blocks over the rows. The backend's launch.h gives MUSAIC_LAUNCH,
// kSmallGroupsExist and has_small_groups() before it.
#pragma once

#include "device/block_group.h"
#include "musaic/stream.h"

namespace musaic::MUSAIC_TARGET {

template <int kLanes, class Program>
__global__ void __launch_bounds__(kBlockThreads) rows_kernel(const Program program, std::int64_t rows) {
  MUSAIC_LAUNCH_BOUNDS(kBlockThreads);
  constexpr int kGroups = kBlockThreads / kLanes;
  const std::int64_t step = std::int64_t{gridDim.x} * kGroups;
  RowGroup<kLanes> group;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kGroups + threadIdx.x / kLanes; row < rows; row += step)
    program(group, row);
}

/// Blocks for `items` of which each takes `per_block`; kernels go on by the grid's size where that is not enough.
inline unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  const std::int64_t blocks = (items + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > 0x7fffffff ? 0x7fffffff : blocks);
}

/// \param row_elements  elements that one row touches, which decides how many lanes share it
template <class Program>
void launch_rows(Stream stream, std::int64_t rows, std::int64_t row_elements, const Program& program) {
  if (rows <= 0) return;
  // Four rows a block would leave lanes of one hardware warp in different rows where it has more than 32 lanes, and
  // at the last rows some would miss an exchange: there a row takes the whole block.
  if constexpr (kSmallGroupsExist) {
    if (row_elements <= 2048 && has_small_groups()) {
      MUSAIC_LAUNCH((rows_kernel<kWarpLanes, Program>), blocks_for(rows, kBlockThreads / kWarpLanes),
                    kBlockThreads, 0, stream, program, rows);
      return;
    }
  }
  MUSAIC_LAUNCH((rows_kernel<kBlockThreads, Program>), blocks_for(rows, 1), kBlockThreads, 0, stream, program,
                rows);
}

/// Reports a fault from any thread; the first wins. The record belongs to one device, so a device-wide atomic decides.
MUSAIC_FN void raise_fault(const FaultSink& sink, DeviceFault kind, std::int64_t row, std::int64_t value) {
  FaultRecord* record = sink.record;
  if (atomicCAS(&record->taken, 0u, 1u) == 0u) {
    record->site = sink.site;
    record->row = row;
    record->value = value;
    store_release(&record->kind, static_cast<std::uint32_t>(kind));
  }
}

/// Makes *p at least v from any thread; v is not negative, so that its bits have its order.
MUSAIC_FN void raise_max(float* p, float v) {
  atomicMax(reinterpret_cast<unsigned*>(p), static_cast<unsigned>(as_bits(v)));
}

}  // namespace musaic::MUSAIC_TARGET
