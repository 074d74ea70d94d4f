#include "backends/simt/options.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "backends/simt/report.h"
#include "backends/simt/stream.h"
#include "musaic/error.h"

namespace musaic::simt {
namespace {

Options& current() {
  static Options o = options_from_environment();
  return o;
}

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0') throw Error("simt", variable, text, "a whole number");
  return value;
}

}  // namespace

Options options_from_environment() {
  Options o;
  o.seed = number("MUSAIC_SIMT_SEED", o.seed);
  o.workers = static_cast<int>(number("MUSAIC_SIMT_WORKERS", 0));
  o.store_buffers = number("MUSAIC_SIMT_STORE_BUFFERS", 0) != 0;
  if (const char* text = std::getenv("MUSAIC_SIMT_SCHEDULE")) {
    bool known = false;
    for (const Schedule s : {Schedule::kInOrder, Schedule::kRandom, Schedule::kRunAhead})
      if (std::strcmp(text, name(s)) == 0) {
        o.schedule = s;
        known = true;
      }
    if (!known) throw Error("simt", "MUSAIC_SIMT_SCHEDULE", text, "in-order, random or run-ahead");
  }
  return o;
}

void set_options(const Options& next) {
  synchronize();
  current() = next;
}

const Options& options() { return current(); }

}  // namespace musaic::simt
