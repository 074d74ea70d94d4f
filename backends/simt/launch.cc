#include "backends/simt/launch.h"

#include <atomic>
#include <map>
#include <string_view>

#include "backends/simt/find.h"
#include "backends/simt/submit.h"

namespace musaic::simt {
namespace {

/// Made at first use, since units count their constants before main().
std::map<std::string_view, std::int64_t>& constants() {
  static std::map<std::string_view, std::int64_t> bytes;
  return bytes;
}

std::atomic<std::int64_t> launches{0};

std::string times(dim3 d) {
  return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
}

/// What a launch asks that the target does not have; empty: nothing.
std::string beyond_limits(const Launch& l, const DeviceRecord& d) {
  const std::uint64_t threads = static_cast<std::uint64_t>(l.block.x) * l.block.y * l.block.z;
  const unsigned block[3] = {l.block.x, l.block.y, l.block.z}, grid[3] = {l.grid.x, l.grid.y, l.grid.z};
  const std::string target = ", the target takes ";
  for (int i = 0; i < 3; ++i) {
    const char axis = static_cast<char>('x' + i);
    if (block[i] == 0 || block[i] > static_cast<std::uint64_t>(d.max_block[i]))
      return "a block of " + times(l.block) + " threads" + target + "1 to " + std::to_string(d.max_block[i]) +
             " in " + axis;
    if (grid[i] == 0 || grid[i] > static_cast<std::uint64_t>(d.max_grid[i]))
      return "a grid of " + times(l.grid) + " blocks" + target + "1 to " + std::to_string(d.max_grid[i]) +
             " in " + axis;
  }
  if (threads > static_cast<std::uint64_t>(d.max_threads_per_block))
    return "a block of " + times(l.block) + " = " + std::to_string(threads) + " threads" + target +
           std::to_string(d.max_threads_per_block);
  const std::uint64_t blocks = static_cast<std::uint64_t>(l.grid.x) * l.grid.y * l.grid.z;
  if (d.max_grid_threads != 0 && blocks * threads > static_cast<std::uint64_t>(d.max_grid_threads))
    return std::to_string(blocks * threads) + " threads in a grid" + target +
           std::to_string(d.max_grid_threads);
  if (l.dynamic_shared_bytes > d.max_shared_bytes)
    return std::to_string(l.dynamic_shared_bytes) + " bytes of dynamic shared memory a block" + target +
           std::to_string(d.max_shared_bytes);
  if (static_cast<std::int64_t>(l.argument_bytes) > d.max_parameter_bytes)
    return std::to_string(l.argument_bytes) + " bytes of arguments" + target +
           std::to_string(d.max_parameter_bytes);
  return {};
}

}  // namespace

bool count_constant(const char* unit, std::size_t bytes) {
  constants()[unit] += static_cast<std::int64_t>(bytes);
  return true;
}

std::int64_t constant_bytes_of(const char* unit) {
  const auto it = constants().find(unit);
  return it == constants().end() ? 0 : it->second;
}

std::int64_t launch_count() { return launches.load(std::memory_order_relaxed); }

void enqueue(Stream stream, Launch launch) {
  WorkInfo info;
  info.kernel = launch.kernel;
  info.device = device_of_stream(stream);
  info.grid = {launch.grid.x, launch.grid.y, launch.grid.z};
  info.block = {launch.block.x, launch.block.y, launch.block.z};
  const DeviceRecord& d = current_target();
  if (const std::string beyond = beyond_limits(launch, d); !beyond.empty())
    return found_in_work(Finding::kLaunchLimit, info, nullptr, beyond);
  if (const std::int64_t bytes = constant_bytes_of(launch.unit); bytes > d.constant_bytes)
    return found_in_work(Finding::kConstantLimit, info, nullptr,
                         std::to_string(bytes) + " bytes of constant memory in " + launch.unit +
                             ", the target has " + std::to_string(d.constant_bytes));
  if (!has_feature(d, launch.feature))
    return found_in_work(Finding::kFeature, info, nullptr,
                         std::string("the kernel's arguments are ") +
                             (launch.feature == Feature::kBFloat16 ? "bfloat16" : "fp8") +
                             ", which the target does not have");
  launches.fetch_add(1, std::memory_order_relaxed);
  submit_to(stream, [info, launch = std::move(launch)] {
    auto work = std::make_shared<Work>();
    const std::uint64_t id = work->info->id;
    *work->info = info;
    work->info->id = id;
    work->launch = launch;
    work->blocks = static_cast<std::uint64_t>(info.grid.x) * info.grid.y * info.grid.z;
    return work;
  });
}

}  // namespace musaic::simt
