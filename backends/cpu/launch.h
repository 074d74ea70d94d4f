// How the CPU runs a row program: rows over the threads, a RowGroup each.
#pragma once

#include "backends/backend.h"
#include "backends/cpu/group.h"
#include "backends/cpu/pool.h"
#include "musaic/stream.h"

namespace musaic::MUSAIC_TARGET {

/// \param row_elements  elements that one row touches, which decides when a second thread pays
template <class Program>
void launch_rows(Stream, std::int64_t rows, std::int64_t row_elements, const Program& program) {
  constexpr std::int64_t kElementsPerThread =
      16384;  // some 5 us of work, against 1 us to wake a spinning thread
  const std::int64_t grain = 1 + kElementsPerThread / (row_elements + 1);
  auto body = [&](std::int64_t begin, std::int64_t end) {
    RowGroup group;
    for (std::int64_t r = begin; r < end; ++r) program(group, r);
  };
  cpu::parallel(rows, grain, body);
}

/// Reports a fault from any thread; the first wins.
MUSAIC_FN void raise_fault(const FaultSink& sink, DeviceFault kind, std::int64_t row, std::int64_t value) {
  std::uint32_t free = 0;
  if (__atomic_compare_exchange_n(&sink.record->taken, &free, 1u, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    sink.record->site = sink.site;
    sink.record->row = row;
    sink.record->value = value;
    __atomic_store_n(&sink.record->kind, static_cast<std::uint32_t>(kind), __ATOMIC_RELEASE);
  }
}

/// Makes *p at least v from any thread; v is not negative, so that its bits have its order.
MUSAIC_FN void raise_max(float* p, float v) {
  std::uint32_t* bits = reinterpret_cast<std::uint32_t*>(p);
  const std::uint32_t wanted = as_bits(v);
  std::uint32_t old = __atomic_load_n(bits, __ATOMIC_RELAXED);
  while (old < wanted &&
         !__atomic_compare_exchange_n(bits, &old, wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

}  // namespace musaic::MUSAIC_TARGET
