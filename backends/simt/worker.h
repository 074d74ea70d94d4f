// A worker: a thread of the host that runs blocks, one lane at a time. Internal.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/simt/block.h"

namespace musaic::simt {

/// A small generator whose state is one word.
struct Random {
  std::uint64_t state = 1;
  std::uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull;
  }
  std::uint64_t below(std::uint64_t n) { return (next() >> 32) * n >> 32; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
};

struct Worker {
  Context own;
  Lane* lane = nullptr;    // the running one
  bool in_kernel = false;  // accesses are the kernel's, to be checked
  StackPool stacks;
  std::vector<std::unique_ptr<Block>> resident, idle_blocks;
  std::size_t turn = 0;
  Random random;
  unsigned until_preemption = 0;
  int id = 0;
  unsigned idle_rounds = 0;
  bool counted_idle = false;
  std::uint64_t seen_progress = 0;
  std::vector<Work*> lingering;       // whose blocks ended, but whose stores are still late
  Block* applied = nullptr;           // whose store buffer is in force
  const void* range_start = nullptr;  // of the program's data, last hit
  const void* range_end = nullptr;

  struct KnownSite {
    const void* address = nullptr;
    std::uint32_t site = 0;
  };
  KnownSite sites[256];
};

extern thread_local Worker* this_worker __attribute__((tls_model("initial-exec")));

/// Leaves the kernel's code for the executor's: accesses are not checked until the scope ends.
class InExecutor {
 public:
  InExecutor() : worker_(this_worker), was_(worker_->in_kernel) { worker_->in_kernel = false; }
  ~InExecutor() { worker_->in_kernel = was_; }
  InExecutor(const InExecutor&) = delete;
  InExecutor& operator=(const InExecutor&) = delete;

 private:
  Worker* worker_;  // fibers stay with their worker
  bool was_;
};

/// The running lane goes back to its worker until something makes it ready.
void suspend(Lane& lane);
/// Ends the whole block, from one of its lanes.
[[noreturn]] void abandon(Lane& lane);
void make_ready(Lane& lane);
/// Something changed that a spinning thread may wait for.
void note_progress();

/// The lane looks at a flag: if it saw this value before, others run first.
void poll(Lane& lane, const void* address, std::size_t bytes, const void* return_address);

/// A lane ended: barriers and exchanges may be complete without it.
void complete_without(Lane& lane);
/// Nobody in the block can go on. Reports who waits where, and ends the block.
void report_stuck(Block& block);

}  // namespace musaic::simt
