// Choice of the instruction set, and the CPU's place in the table of backends.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

#include "backends/backend.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace musaic {

#define MUSAIC_CPU_PATH(ns, path, test) \
  namespace ns {                        \
  extern const OpTable op_table;        \
  }
#include "backends/cpu/paths.inc"
#undef MUSAIC_CPU_PATH

namespace cpu {
namespace {

#if defined(__x86_64__)
// clang 14 does not know this name in __builtin_cpu_supports.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
// __builtin_cpu_supports also asks whether the system saves the wide registers.
[[maybe_unused]] bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") &&
         has_f16c();
}
[[maybe_unused]] bool has_v4() {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif
[[maybe_unused]] bool always() { return true; }

const Path kPaths[] = {
#define MUSAIC_CPU_PATH(ns, path, test) {path, test, &ns::op_table},
#include "backends/cpu/paths.inc"
#undef MUSAIC_CPU_PATH
};

const Path* find(const char* name) {
  std::string known;
  for (const Path& p : kPaths) {
    if (std::strcmp(p.name, name) == 0) {
      if (!p.supported()) throw Error("MUSAIC_CPU", "path", name, "one that this processor supports");
      return &p;
    }
    known += (known.empty() ? "" : ", ") + std::string(p.name);
  }
  throw Error("MUSAIC_CPU", "path", name, "one of " + known);
}

const Path* choose() {
  const char* forced = std::getenv("MUSAIC_CPU");
  if (forced != nullptr && *forced != '\0') return find(forced);
  for (const Path& p : kPaths)
    if (p.supported()) return &p;
  return &kPaths[0];
}

std::atomic<const Path*> current{nullptr};
FaultRecord record{};

const Path& path() {
  const Path* p = current.load(std::memory_order_acquire);
  if (p == nullptr) {
    p = choose();
    current.store(p, std::memory_order_release);
  }
  return *p;
}

void no_graphs() { throw Error("musaic", "device", "cpu", "one whose work can be captured into a graph"); }

void* memory_of(int, std::int64_t bytes) {
  if (bytes > (std::int64_t{1} << 62)) throw std::bad_alloc();
  void* memory =
      std::aligned_alloc(64, (static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)) + 63) / 64 * 64);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void free_memory(int, void* memory) { std::free(memory); }
void copy(int, void* to, const void* from, std::int64_t bytes) {
  std::memmove(to, from, static_cast<std::size_t>(bytes));
}

DeviceProperties properties(int) {
  DeviceProperties p;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; p.name.empty() && std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) p.name = line.substr(line.find(':') + 2);
  if (p.name.empty()) p.name = "cpu";
  p.architecture = path().name;
  p.multiprocessors = num_threads();
  p.memory_bytes = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  return p;
}

using Clock = std::chrono::steady_clock;

// Work is done when a call returns, so streams and waits are nothing, and an event is a time.
constexpr Runtime kRuntime{
    .device_count = [] { return 1; },
    .properties = properties,
    .allocate = memory_of,
    .release = free_memory,
    .allocate_pinned = memory_of,
    .release_pinned = free_memory,
    .copy_to_device = [](int d, void* to, const void* from, std::int64_t n, Stream,
                         bool) { copy(d, to, from, n); },
    .copy_to_host = [](int d, void* to, const void* from, std::int64_t n, Stream,
                       bool) { copy(d, to, from, n); },
    .copy_on_device = [](int d, void* to, const void* from, std::int64_t n, Stream) { copy(d, to, from, n); },
    .fill = [](int, void* to, unsigned char v, std::int64_t n,
               Stream) { std::memset(to, v, static_cast<std::size_t>(n)); },
    .create_stream = [](int) { return Stream{}; },
    .destroy_stream = [](int, Stream) {},
    .synchronize = [](int, Stream) {},
    .create_event = [](int) { return Event{new Clock::time_point()}; },
    .destroy_event = [](int, Event e) { delete static_cast<Clock::time_point*>(e.handle); },
    .record = [](int, Event e, Stream) { *static_cast<Clock::time_point*>(e.handle) = Clock::now(); },
    .wait = [](int, Stream, Event) {},
    .elapsed_ms =
        [](int, Event a, Event b) {
          return std::chrono::duration<double, std::milli>(*static_cast<Clock::time_point*>(b.handle) -
                                                           *static_cast<Clock::time_point*>(a.handle))
              .count();
        },
    .begin_capture = [](int, Stream) { no_graphs(); },
    .end_capture = [](int, Stream) { return no_graphs(), Graph{}; },
    .replay = [](int, Graph, Stream) { no_graphs(); },
    .destroy_graph = [](int, Graph) {},
    .faults = [](int) { return &record; },
    .lacks = [](int, DType) { return std::string(); },
    .use = [](int) {},
};

}  // namespace

PathList paths() { return {std::begin(kPaths), std::end(kPaths)}; }

void force_path(const char* name) { current.store(name != nullptr ? find(name) : choose()); }

const BackendEntry& entry() {
  static constexpr BackendEntry e{
      "cpu", [](int) { return path().ops; }, &kRuntime,
      [](const std::string& rest) { return rest.empty() || rest == "0" ? 0 : -1; }};
  return e;
}

}  // namespace cpu

const char* cpu_path() { return cpu::path().name; }

}  // namespace musaic
