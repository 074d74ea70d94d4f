// The CPU's worker threads. Compiled once; kernels of every instruction set use it.
#pragma once

#include <cstdint>

namespace musaic::cpu {

/// Runs body(context, begin, end) over [0, n), cut into at most num_threads() contiguous parts of at least
/// `grain` items; the calling thread takes the first part, then those that no worker has begun, and returns
/// when all are done. A call from inside a body, or while another thread uses the pool, runs in the calling
/// thread alone. Bodies must not throw.
void parallel_for(std::int64_t n, std::int64_t grain, void (*body)(void*, std::int64_t, std::int64_t),
                  void* context);

template <class F>
void parallel(std::int64_t n, std::int64_t grain, F& body) {
  parallel_for(
      n, grain, [](void* c, std::int64_t begin, std::int64_t end) { (*static_cast<F*>(c))(begin, end); },
      &body);
}

}  // namespace musaic::cpu
