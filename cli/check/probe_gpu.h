// What the library relies on in a GPU beyond arithmetic, as small kernels: one unit a backend.
#pragma once

#include "backends/backend.h"
#include "cli/check/probe_args.h"
#include "device/device.h"

namespace musaic::MUSAIC_TARGET {
namespace {

inline constexpr int kProbeThreads = 128;

/// Probes without barriers.
__global__ void __launch_bounds__(kProbeThreads) probe_simple_kernel(const GpuProbeArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kProbeThreads);
  const auto thread = static_cast<std::uint32_t>(threadIdx.x), block = static_cast<std::uint32_t>(blockIdx.x);
  if (a.probe == GpuProbe::kWarpSize && thread == 0) a.out[0] = static_cast<std::uint32_t>(warpSize);
  if (a.probe == GpuProbe::kOffset)
    a.out[a.offset + block * blockDim.x + thread] = block * blockDim.x + thread;
  if (a.probe == GpuProbe::kAtomics) {
    atomicAdd(&a.out[0], 1u);
    if (atomicCAS(&a.out[1], 0u, 1u) == 0u) atomicAdd(&a.out[2], 1u);
  }
  if (a.probe == GpuProbe::kSlowWrite && thread == 0) {
    std::uint32_t state = a.value;
    for (int i = 0; i < 20000; ++i) state = state * 1664525u + 1013904223u;
    a.out[0] = a.value + (state == 7u ? 1u : 0u);  // the loop's end has to be waited for
  }
  if (a.probe == GpuProbe::kNext && thread == 0) a.out[1] = a.out[0] + 1;
  if (a.probe == GpuProbe::kIncrement && thread == 0) a.out[0] += 1;
}

__global__ void __launch_bounds__(kProbeThreads) probe_exchange_kernel(const GpuProbeArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kProbeThreads);
  const auto thread = static_cast<std::uint32_t>(threadIdx.x), value = 7 * thread + 1;
  for (unsigned i = 0; i < 5; ++i) a.out[i * kProbeThreads + thread] = exchange_xor(value, 1 << i);
  a.out[5 * kProbeThreads + thread] = exchange_from(value, 5);
  a.out[6 * kProbeThreads + thread] = exchange_up(value, 3);
}

/// The first thread waits until another block's flag is `round`; false if that took too long.
MUSAIC_FN bool probe_wait(std::uint32_t* flag, std::uint32_t round) {
  for (std::int64_t tries = 0; tries < (std::int64_t{1} << 22); ++tries)
    if (load_acquire(flag) >= round) return true;
  return false;
}

/// Block 0 writes 64 words and raises its flag; block 1 reads them and raises its own.
__global__ void __launch_bounds__(kProbeThreads) probe_handshake_kernel(const GpuProbeArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kProbeThreads);
  const auto thread = static_cast<std::uint32_t>(threadIdx.x);
  const bool writer = blockIdx.x == 0;
  std::uint32_t *flags = a.memory, *words = a.memory + 2;
  bool in_time = true;
  for (std::uint32_t round = 1; round <= kProbeRounds; ++round) {
    if (writer) words[thread] = 1000 * round + thread;
    sync_block();
    if (thread == 0) {
      if (writer) store_release(&flags[0], round);
      in_time = in_time && probe_wait(&flags[writer ? 1 : 0], round);
    }
    sync_block();
    if (!writer && words[thread] == 1000 * round + thread) atomicAdd(&a.out[0], 1u);
    sync_block();
    if (!writer && thread == 0) store_release(&flags[1], round);
  }
  if (!in_time) atomicAdd(&a.out[1], 1u);
}

__global__ void __launch_bounds__(kProbeThreads) probe_shared_kernel(const GpuProbeArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kProbeThreads);
  MUSAIC_DYNAMIC_SHARED(std::uint32_t, words);
  constexpr int kWords = kProbeSharedBytes / 4;
  const int thread = static_cast<int>(threadIdx.x);
  const auto block = static_cast<std::uint32_t>(blockIdx.x);
  for (int i = thread; i < kWords; i += kProbeThreads)
    words[i] = static_cast<std::uint32_t>(i) * 2654435761u + block;
  sync_shared();
  std::uint32_t right = 0;
  for (int i = thread; i < kWords; i += kProbeThreads) {
    const int other = kWords - 1 - i;
    right += words[other] == static_cast<std::uint32_t>(other) * 2654435761u + block ? 1u : 0u;
  }
  atomicAdd(&a.out[block], right);
}

struct ProbeWords {
  std::uint32_t word[512];
};
__global__ void __launch_bounds__(kProbeThreads)
    probe_parameters_kernel(const ProbeWords w, std::uint32_t* out) {
  MUSAIC_LAUNCH_BOUNDS(kProbeThreads);
  std::uint32_t sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < 512; i += kProbeThreads) sum += w.word[i];
  atomicAdd(out, sum);
}

}  // namespace

void probe_gpu(const GpuProbeArgs& a, Stream stream) {
  switch (a.probe) {
    case GpuProbe::kExchange:
      MUSAIC_LAUNCH(probe_exchange_kernel, 1, kProbeThreads, 0, stream, a);
      break;
    case GpuProbe::kHandshake:
      MUSAIC_LAUNCH(probe_handshake_kernel, 2, 64, 0, stream, a);
      break;
    case GpuProbe::kShared:
      MUSAIC_LAUNCH(probe_shared_kernel, 8, kProbeThreads, kProbeSharedBytes, stream, a);
      break;
    case GpuProbe::kParameters: {
      ProbeWords w;
      for (std::uint32_t i = 0; i < 512; ++i) w.word[i] = i * i + 1;
      MUSAIC_LAUNCH(probe_parameters_kernel, 1, kProbeThreads, 0, stream, w, a.out);
      break;
    }
    case GpuProbe::kAtomics:
      MUSAIC_LAUNCH(probe_simple_kernel, 16, 64, 0, stream, a);
      break;
    case GpuProbe::kOffset:
      MUSAIC_LAUNCH(probe_simple_kernel, 2, kProbeThreads, 0, stream, a);
      break;
    default:
      MUSAIC_LAUNCH(probe_simple_kernel, 1, 32, 0, stream, a);
  }
}

}  // namespace musaic::MUSAIC_TARGET
