// What the checks found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/simt/options.h"

namespace musaic::simt {

enum class Finding {
  kGlobalBounds,        // global memory outside an allocation, or freed
  kSharedBounds,        // shared memory outside the block's variables
  kIndexBounds,         // an index outside an array of known size
  kMisaligned,          // an access that is not a multiple of its size
  kHostPointer,         // memory of the host, or null
  kPeerAccess,          // memory of a device to which no access was granted
  kConstantWrite,       // a write to constant memory or to the program's own data
  kSharedUnwritten,     // shared memory that this block never wrote
  kGlobalUnwritten,     // global memory that nothing ever wrote, read by a kernel
  kOutputUnwritten,     // the same, read by the host
  kSharedRace,          // two threads of a block, no barrier between
  kGlobalRace,          // two threads of one or two blocks, not ordered
  kMissingFence,        // ordered by a flag, but a fence is missing on one side
  kStreamOrder,         // two pieces of work that no stream, event or wait orders
  kBarrierDivergence,   // threads wait at different barriers, or some never come
  kExchangeDivergence,  // the same for exchanges and votes
  kExchangeLane,        // an exchange reads a lane that is absent, exited or outside the mask
  kExchangeMask,        // a mask that does not suit the target or lacks the caller
  kExchangeWidth,       // a width that the target does not deliver
  kLaunchLimit,         // block, grid, parameters or shared memory beyond the target
  kLaunchBounds,        // more threads than the kernel declares
  kConstantLimit,       // more constant memory than the target has
  kFeature,             // a number format that the target lacks
  kLivelock,            // everything that is resident spins
  kTrap,                // the kernel stopped itself
  kOrderDependence,     // another order of threads gave other bytes
};
const char* name(Finding finding);

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
  bool operator==(const Index3& o) const { return x == o.x && y == o.y && z == o.z; }
};

struct Report {
  Finding finding{};
  std::string target;
  std::string kernel;  // empty: no kernel was running
  std::string file;    // the innermost line outside the executor's own headers
  int line = 0;
  Index3 block, thread;
  int lane = -1;  // of the hardware warp; -1: not about lanes
  const void* address = nullptr;
  std::string message;             // one line: what, against whom
  std::vector<std::string> where;  // the inlined calls, innermost first, "file:line (function)"
  std::string other_file;          // the access that this one collides with, if known
  int other_line = 0;
  std::uint64_t seed = 0;
  Schedule schedule{};
  std::int64_t count = 1;  // how often the same finding came from the same line

  /// All of it as a person reads it.
  std::string text() const;
};

/// The findings since the last call; waits for the work that is enqueued.
std::vector<Report> take_reports();
/// Throws an Error with the text of the findings, if there are any; waits as take_reports does.
void raise_reports();
/// How many distinct findings wait to be taken; does not wait for work.
std::size_t report_count();

}  // namespace musaic::simt
