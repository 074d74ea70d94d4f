// Choice of the instruction set, and the CPU's place in the table of backends.
#include <atomic>
#include <cstdlib>
#include <cstring>
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

}  // namespace

PathList paths() { return {std::begin(kPaths), std::end(kPaths)}; }

void force_path(const char* name) { current.store(name != nullptr ? find(name) : choose()); }

Backend& backend() {
  static thread_local Backend b{"cpu", nullptr, &record};
  b.ops = path().ops;
  return b;
}

}  // namespace cpu

const char* cpu_path() { return cpu::path().name; }

}  // namespace musaic
