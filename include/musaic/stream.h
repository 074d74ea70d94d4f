// Streams, workspace, threads and the per-device error record.
#pragma once

#include <cstddef>
#include <cstdint>

#include "musaic/tensor.h"

namespace musaic {

/// An order of work on a device. `handle` is the vendor's stream (null: its default stream). The CPU has no
/// streams: a call there is done when it returns, whatever stream it names.
struct Stream {
  void* handle = nullptr;
};

/// Scratch memory on the device of the call, given by the caller to operators that need it. Each such
/// operator has a function `<operator>_workspace_bytes(...)`; alignment 64 bytes; contents before and after
/// mean nothing.
struct Workspace {
  void* data = nullptr;
  std::int64_t bytes = 0;
};

/// What only a device can see while it computes (bad ids, NaN under check_nan, ...).
enum class DeviceFault : std::uint32_t {
  kNone = 0,
  kIndexOutOfRange = 1,  // a token id, position, slot or page outside its table: that row was left unwritten
  kNotANumber = 2,       // a NaN where the caller asked for a check
};

/// Waits for `stream`, then throws if a call since the last check met a DeviceFault on `device`. The text
/// names the operator, the argument, the row and the value. The record is cleared. On the CPU an operator
/// that meets a fault finishes the good rows first; the fault is raised here, or by the next operator call on
/// that device.
void check(Device device = {}, Stream stream = {});

/// Threads that the CPU backend uses for one call, the caller included. Results do not depend on it.
/// n <= 0: as many as the process may run on. Not safe while another thread is inside an operator.
void set_num_threads(int n);
int num_threads();

/// The CPU code path in use: "x86-64-v4", "x86-64-v3" or "baseline". Chosen at first use from the processor,
/// or by the environment variable MUSAIC_CPU (one of these names; an unknown or unsupported one is an Error).
/// All paths give the same bits.
const char* cpu_path();

}  // namespace musaic
