// Facts of a device that the library relies on, each checked by a small kernel of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/check/probe_args.h"
#include "musaic/musaic.h"

namespace musaic::checks {

struct Probe {
  std::string name;  // "probe/fma-rounding"
  std::string fact;  // what has to hold, as a person reads it
};
std::vector<Probe> all_probes();

struct ProbeOutcome {
  enum class State { kHolds, kFailed, kNotRun } state = State::kHolds;
  std::string text;  // what was seen; why it failed or was not run
};
/// What computes the probes on a device; null where its backend has none, `gpu` also on the CPU.
struct ProbeKernels {
  void (*rows)(const RowProbeArgs&, Stream) = nullptr;
  void (*gpu)(const GpuProbeArgs&, Stream) = nullptr;
};
ProbeKernels probe_kernels(Device device);

/// Checks a fact on a device by these kernels. The seed chooses the numbers.
ProbeOutcome run_probe(const Probe& probe, Device device, std::uint64_t seed, const ProbeKernels& kernels);

/// An empty launch on the device's stream: a kernel of 32 threads that does nothing; on the CPU, a call that computes
/// eight elements.
void launch_nothing(Device device, Stream stream);

}  // namespace musaic::checks
