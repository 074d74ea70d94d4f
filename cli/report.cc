#include "cli/report.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "cli/bandwidth.h"
#include "musaic/stream.h"

namespace musaic::cli {
namespace {

/// Weights below this size would be read from caches, and say nothing of the memory.
constexpr int64_t kLeastMeasured_bytes = 48 << 20;

int64_t peak_rss_bytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

/// All tensors of the file, from the first byte to the last.
std::span<const std::byte> weights_of(const llm::GgufFile& file) {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  for (const llm::GgufTensor& t : file.tensors()) {
    begin = begin == nullptr ? t.data : std::min(begin, t.data);
    end = std::max(end, t.data + t.bytes);
  }
  return {begin, end};
}

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char line[256];
  va_list args;
  va_start(args, pattern);
  std::vsnprintf(line, sizeof line, pattern, args);
  va_end(args);
  return line;
}

}  // namespace

Report report_of(const llm::Model& model, const llm::Generator& generator, bool profiled) {
  Report r;
  r.stats = generator.stats();
  r.profile = generator.profile();
  r.profiled = profiled;
  r.threads = num_threads();
  r.step_weight_bytes = model.step_bytes();
  r.model_file_bytes = static_cast<int64_t>(model.file().file_bytes());
  r.cache_bytes = generator.cache_bytes();
  r.buffer_bytes = generator.buffer_bytes();
  r.replays = generator.replays();
  r.peak_rss_bytes = peak_rss_bytes();
  const std::span<const std::byte> weights = weights_of(model.file());
  if (model.device().type == DeviceType::kCpu && std::ssize(weights) >= kLeastMeasured_bytes)
    r.memory_bytes_per_s = read_bandwidth(weights, r.threads);
  return r;
}

std::string Report::text() const {
  std::string out =
      format("prefill %lld tokens in %.2f s: %.1f tokens/s; decode %lld tokens in %.2f s: %.1f tokens/s\n",
             static_cast<long long>(stats.prefill_tokens), stats.prefill_s, prefill_tokens_per_s(),
             static_cast<long long>(stats.decode_tokens), stats.decode_s, decode_tokens_per_s());
  out += format("weights read in decode: %.1f GB/s", weight_bytes_per_s() * 1e-9);
  if (memory_bytes_per_s > 0)
    out += format(", %.0f %% of the %.1f GB/s that %d threads read from memory",
                  100 * weight_bytes_per_s() / memory_bytes_per_s, memory_bytes_per_s * 1e-9, threads);
  out += format("; most memory in use: %.0f MB\n", static_cast<double>(peak_rss_bytes) * 1e-6);
  if (!profiled) return out;
  double total = 0;
  for (size_t k = 0; k < llm::Profile::kKinds; ++k)
    total += profile[static_cast<llm::Profile::Kind>(k)].seconds;
  for (size_t k = 0; k < llm::Profile::kKinds; ++k) {
    const llm::Profile::Entry& e = profile[static_cast<llm::Profile::Kind>(k)];
    out += format("  %-10s %8lld calls %9.2f ms %5.1f %%\n", llm::Profile::kNames[k],
                  static_cast<long long>(e.calls), e.seconds * 1e3, total > 0 ? 100 * e.seconds / total : 0);
  }
  return out;
}

nlohmann::json Report::json() const {
  nlohmann::json out = {{"prefill_tokens", stats.prefill_tokens},
                        {"prefill_s", stats.prefill_s},
                        {"prefill_tokens_per_s", prefill_tokens_per_s()},
                        {"decode_tokens", stats.decode_tokens},
                        {"decode_steps", stats.decode_steps},
                        {"decode_s", stats.decode_s},
                        {"decode_tokens_per_s", decode_tokens_per_s()},
                        {"threads", threads},
                        {"step_weight_bytes", step_weight_bytes},
                        {"weight_bytes_per_s", weight_bytes_per_s()},
                        {"memory_bytes_per_s", memory_bytes_per_s},
                        {"model_file_bytes", model_file_bytes},
                        {"cache_bytes", cache_bytes},
                        {"buffer_bytes", buffer_bytes},
                        {"peak_rss_bytes", peak_rss_bytes}};
  if (profiled)
    for (size_t k = 0; k < llm::Profile::kKinds; ++k) {
      const llm::Profile::Entry& e = profile[static_cast<llm::Profile::Kind>(k)];
      out["profile"][llm::Profile::kNames[k]] = {{"seconds", e.seconds}, {"calls", e.calls}};
    }
  return out;
}

}  // namespace musaic::cli
