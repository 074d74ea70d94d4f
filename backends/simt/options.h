// How the executor runs: the schedule, its seed, workers, and the memory model.
#pragma once

#include <cstdint>

namespace musaic::simt {

enum class Schedule {
  kInOrder,   // blocks and threads as they are numbered; all workers
  kRandom,    // any ready thread, changed at synchronisation and at memory accesses; one worker
  kRunAhead,  // one warp at a time runs as far as it can; one worker
};
const char* name(Schedule schedule);

struct Options {
  Schedule schedule = Schedule::kInOrder;
  std::uint64_t seed = 1;  // of kRandom, kRunAhead and the store buffers
  /// Threads of the host; 0: as many as the process may use. Other schedules than kInOrder and the store
  /// buffers need one, which makes a run repeatable by its seed.
  int workers = 0;
  /// Plain and volatile stores reach other blocks and devices late and out of order until a fence of
  /// sufficient scope; other blocks' stores may stay unseen until a fence of the reader.
  bool store_buffers = false;
  /// Blocks that a device holds at once; 0: as the target's record says.
  int resident_blocks = 0;
};

/// Waits for all work, then changes the options.
void set_options(const Options& options);
const Options& options();
/// The defaults, changed by MUSAIC_SIMT_SCHEDULE (in-order, random, run-ahead), MUSAIC_SIMT_SEED,
/// MUSAIC_SIMT_WORKERS and MUSAIC_SIMT_STORE_BUFFERS (0 or 1).
Options options_from_environment();

/// Sets options for a scope.
class ScopedOptions {
 public:
  explicit ScopedOptions(const Options& next) : saved_(options()) { set_options(next); }
  ~ScopedOptions() { set_options(saved_); }
  ScopedOptions(const ScopedOptions&) = delete;
  ScopedOptions& operator=(const ScopedOptions&) = delete;

 private:
  Options saved_;
};

}  // namespace musaic::simt
