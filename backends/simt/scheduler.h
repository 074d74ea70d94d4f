// Runs work: which block goes on, which lane of it, when another block is admitted. Internal.
#pragma once

#include <memory>

#include "backends/simt/work.h"

namespace musaic::simt {

/// Takes work whose predecessors are known; it starts once they are done and someone runs.
void submit(std::shared_ptr<Work> work);
/// Runs until nothing is left to do. Not from a kernel or from work.
void run_everything();
/// Whether the caller is a kernel, or work that runs.
bool is_running_work();

}  // namespace musaic::simt
