// Runs work under several schedules and compares what it wrote.
#pragma once

#include <cstdint>
#include <functional>

namespace musaic::simt {

/// Runs `work` in order, then `runs` times each with random and run-ahead schedules, and compares `bytes` of
/// device memory at `output`. The first difference becomes a finding with its seed; false if there is one.
bool is_order_independent(const std::function<void()>& work, const void* output, std::int64_t bytes,
                          int runs = 5);

}  // namespace musaic::simt
