// The figures of a run: speed, memory, and where the time went.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "llm/generate.h"

namespace musaic::cli {

struct Report {
  llm::RunStats stats;
  llm::Profile profile;
  bool profiled = false;
  int threads = 0;
  int64_t step_weight_bytes = 0;  ///< weights that a decode step reads
  int64_t model_file_bytes = 0;
  int64_t cache_bytes = 0, buffer_bytes = 0;
  int64_t replays = 0;            ///< steps that were replayed from a graph
  int64_t peak_rss_bytes = 0;     ///< of the process, so far
  double memory_bytes_per_s = 0;  ///< measured; 0: not measured, since the weights fit into the caches

  double prefill_tokens_per_s() const {
    return rate(static_cast<double>(stats.prefill_tokens), stats.prefill_s);
  }
  double decode_tokens_per_s() const {
    return rate(static_cast<double>(stats.decode_tokens), stats.decode_s);
  }
  double weight_bytes_per_s() const {
    return rate(static_cast<double>(step_weight_bytes) * static_cast<double>(stats.decode_steps),
                stats.decode_s);
  }

  std::string text() const;  ///< some lines
  nlohmann::json json() const;

 private:
  static double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }
};

/// The figures of the generator's last run. Reads the weights for about 0.2 s to measure the memory.
Report report_of(const llm::Model& model, const llm::Generator& generator, bool profiled);

}  // namespace musaic::cli
