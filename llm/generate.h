// Text from prompts: several requests at a time, each as if it were alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llm/model.h"
#include "llm/profile.h"
#include "llm/sampler.h"
#include "llm/tokenizer.h"

namespace musaic::llm {

struct Request {
  std::vector<int32_t> prompt;  ///< token ids
  Sampling sampling;
  int64_t max_tokens = 256;
  std::vector<std::string> stops;  ///< strings that end the text, and are no part of it
  bool ignore_end = false;         ///< goes on after an end token; for measurements
};

enum class StopReason {
  kEnd,        ///< the model ended its answer
  kStop,       ///< a stop string
  kLength,     ///< max_tokens, or the context is full
  kCancelled,  ///< the observer said so
};
const char* to_string(StopReason reason);

struct Answer {
  std::vector<int32_t> tokens;  ///< all that were drawn, an end token included
  std::string text;             ///< well-formed UTF-8
  StopReason reason = StopReason::kCancelled;
};

/// Time and work of a run. A batch of rows counts one step and as many tokens as it has rows.
struct RunStats {
  int64_t prefill_tokens = 0, decode_tokens = 0, decode_steps = 0;
  double prefill_s = 0, decode_s = 0;
};

/// What a program wants to know while it waits. Calls come from the thread that runs.
class Observer {
 public:
  virtual ~Observer() = default;
  /// New text of a request: whole characters, never the beginning of a stop string.
  virtual void text(int64_t /*request*/, std::string_view /*text*/) {}
  /// The request is done.
  virtual void done(int64_t /*request*/, const Answer& /*answer*/) {}
  /// Prompt tokens computed, of so many; tokens drawn, of so many at most.
  virtual void progress(int64_t /*prefilled*/, int64_t /*prompt_tokens*/, int64_t /*drawn*/,
                        int64_t /*most*/) {}
  /// Asked before each pass; true ends the run, answers keep what they have.
  virtual bool cancelled() { return false; }
};

struct RunOptions {
  int64_t context = 0;        ///< most tokens of a row, prompt and answer; 0: what the model was made for
  int64_t rows = 16;          ///< most requests at a time
  int64_t pass_tokens = 128;  ///< most prompt tokens of one pass
  bool profile = false;
  bool graphs = true;  ///< on a device: capture the step of decoding and replay it
};

/// Runs the requests on the device of the model; the answers come in their order. Throws musaic::Error, before anything is computed, for
/// a request without tokens, with an id outside the vocabulary, with more prompt than the context holds, or
/// with sampling numbers out of range; and when the model's file changes meanwhile.
///
/// An answer depends on the model and its own request alone: not on the other requests, on `options.rows`,
/// `options.pass_tokens` or the number of threads.
class Generator {
 public:
  Generator(const Model& model, const Tokenizer& tokenizer, const RunOptions& options);

  std::vector<Answer> run(std::span<const Request> requests, Observer& observer);

  const RunStats& stats() const { return stats_; }
  const Profile& profile() const { return profile_; }
  int64_t context() const { return context_; }
  /// Bytes of the cache of keys and values, and of all other buffers, of the last run.
  int64_t cache_bytes() const { return cache_bytes_; }
  int64_t buffer_bytes() const { return buffer_bytes_; }
  /// Steps of the last run that were replayed from a graph.
  int64_t replays() const { return replays_; }

 private:
  const Model& model_;
  const Tokenizer& tokenizer_;
  RunOptions options_;
  int64_t context_;
  RunStats stats_;
  Profile profile_;
  int64_t cache_bytes_ = 0, buffer_bytes_ = 0, replays_ = 0;
};

}  // namespace musaic::llm
