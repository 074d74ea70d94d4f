#include "backends/simt/order_check.h"

#include <cstring>
#include <vector>

#include "backends/simt/find.h"
#include "backends/simt/options.h"
#include "backends/simt/stream.h"

namespace musaic::simt {

bool is_order_independent(const std::function<void()>& work, const void* output, std::int64_t bytes,
                          int runs) {
  const auto run = [&](Schedule schedule, std::uint64_t seed) {
    Options o = options();
    o.schedule = schedule;
    o.seed = seed;
    const ScopedOptions scope(o);
    work();
    synchronize();
    std::vector<unsigned char> result(static_cast<std::size_t>(bytes));
    copy_from_device(result.data(), output, bytes);
    return result;
  };
  const std::uint64_t first_seed = options().seed;
  const auto expected = run(Schedule::kInOrder, first_seed);
  for (int i = 0; i < runs; ++i)
    for (const Schedule schedule : {Schedule::kRandom, Schedule::kRunAhead}) {
      const std::uint64_t seed = first_seed + static_cast<std::uint64_t>(i);
      const auto got = run(schedule, seed);
      if (got == expected) continue;
      std::size_t at = 0;
      while (got[at] == expected[at]) ++at;
      Options o = options();
      o.schedule = schedule;
      o.seed = seed;
      const ScopedOptions scope(o);  // the finding names them
      found_in_work(
          Finding::kOrderDependence, WorkInfo{}, static_cast<const char*>(output) + at,
          "another order of threads and blocks gives other bytes, the first at offset " + std::to_string(at));
      return false;
    }
  return true;
}

}  // namespace musaic::simt
