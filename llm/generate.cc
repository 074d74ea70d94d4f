#include "llm/generate.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>

#include "llm/cache.h"
#include "llm/runner.h"
#include "llm/stop.h"
#include "llm/utf8.h"
#include "musaic/error.h"

namespace musaic::llm {
namespace {

/// A request on its way: its row of the cache, and its text so far.
struct Active {
  int64_t request;
  int64_t row;
  size_t prefilled = 0;  // prompt tokens computed
  StopMatcher stop;
  Utf8Stream characters;
};

class Run {
 public:
  Run(const Model& model, const Tokenizer& tokenizer, int64_t context, const RunOptions& options,
      std::span<const Request> requests, Observer& observer, RunStats& stats)
      : model_(model),
        tokenizer_(tokenizer),
        context_(context),
        options_(options),
        requests_(requests),
        observer_(observer),
        stats_(stats),
        num_rows_(std::min(options.rows, std::max<int64_t>(std::ssize(requests), 1))),
        cache_(make_cache()),
        runner_(model, cache_, {row_tokens(), std::max(options.pass_tokens, num_rows_), num_rows_, num_rows_},
                options.graphs),
        sampler_(num_rows_, model.config().vocab_size, model.device()),
        answers_(requests.size()) {
    runner_.profile().turn_on(options.profile);
    for (int64_t row = num_rows_; row-- > 0;) free_rows_.push_back(row);
    active_.reserve(static_cast<size_t>(num_rows_));
    pieces_.reserve(static_cast<size_t>(num_rows_));
    drawing_.reserve(static_cast<size_t>(num_rows_));
    for (const Request& r : requests_) {
      prompt_tokens_ += std::ssize(r.prompt);
      most_drawn_ += capacity(r) - std::ssize(r.prompt) + 1;
    }
    for (size_t i = 0; i < requests_.size(); ++i)
      answers_[i].tokens.reserve(
          static_cast<size_t>(capacity(requests_[i]) - std::ssize(requests_[i].prompt) + 1));
  }

  std::vector<Answer> go() {
    while (admit() && !observer_.cancelled()) {
      model_.file().check_unchanged();
      const bool prefill = plan_prefill() || plan_decode();
      step(prefill);
      observer_.progress(stats_.prefill_tokens, prompt_tokens_, drawn_, most_drawn_);
    }
    while (!active_.empty()) finish(0, StopReason::kCancelled);
    return std::move(answers_);
  }

  const KvCache& cache() const { return cache_; }
  Runner& runner() { return runner_; }

 private:
  /// Positions that the request can fill: its last token is drawn and never computed.
  int64_t capacity(const Request& r) const {
    return std::min(context_, std::ssize(r.prompt) + std::max<int64_t>(r.max_tokens, 1) - 1);
  }
  int64_t row_tokens() const {
    int64_t most = 1;
    for (const Request& r : requests_) most = std::max(most, capacity(r));
    return most;
  }
  /// Pages for the largest requests that can be in work together.
  KvCache make_cache() const {
    std::vector<int64_t> pages;
    for (const Request& r : requests_) pages.push_back(KvCache::pages_for(capacity(r)));
    std::sort(pages.begin(), pages.end(), std::greater<>());
    int64_t total = 0;
    for (int64_t i = 0; i < std::min<int64_t>(num_rows_, std::ssize(pages)); ++i)
      total += pages[static_cast<size_t>(i)];
    return KvCache(model_.config(), num_rows_, KvCache::pages_for(row_tokens()), std::max<int64_t>(total, 1),
                   model_.device());
  }

  /// Lets waiting requests in; false when there is nothing left to do.
  bool admit() {
    while (next_ < std::ssize(requests_) && !free_rows_.empty()) {
      const Request& r = requests_[static_cast<size_t>(next_)];
      if (r.max_tokens < 1) {
        answers_[static_cast<size_t>(next_)].reason = StopReason::kLength;
        observer_.done(next_, answers_[static_cast<size_t>(next_)]);
        ++next_;
        continue;
      }
      const int64_t row = free_rows_.back();
      free_rows_.pop_back();
      cache_.open(row, capacity(r));
      sampler_.set(row, r.sampling);
      active_.push_back({next_++, row, 0, StopMatcher(r.stops), {}});
    }
    return !active_.empty();
  }

  /// A pass over prompts that are not computed yet, if there are any.
  bool plan_prefill() {
    pieces_.clear();
    drawing_.clear();
    int64_t room = options_.pass_tokens;
    for (size_t i = 0; i < active_.size() && room > 0; ++i) {
      Active& a = active_[i];
      const std::span<const int32_t> rest = std::span(prompt(a)).subspan(a.prefilled);
      if (rest.empty()) continue;
      const size_t count = std::min(rest.size(), static_cast<size_t>(room));
      const bool whole = count == rest.size();
      pieces_.push_back({a.row, rest.first(count), whole ? Piece::Logits::kLast : Piece::Logits::kNone});
      if (whole) drawing_.push_back(i);
      a.prefilled += count;
      room -= static_cast<int64_t>(count);
      stats_.prefill_tokens += static_cast<int64_t>(count);
    }
    return !pieces_.empty();
  }

  /// A pass over the last token of every row. Always false: it is no prefill.
  bool plan_decode() {
    for (size_t i = 0; i < active_.size(); ++i) {
      pieces_.push_back({active_[i].row, std::span(answer(active_[i]).tokens).last(1), Piece::Logits::kLast});
      drawing_.push_back(i);
    }
    stats_.decode_tokens += std::ssize(active_);
    ++stats_.decode_steps;
    return false;
  }

  void step(bool prefill) {
    const auto start = std::chrono::steady_clock::now();
    const Tensor logits = runner_.forward(pieces_);
    if (!drawing_.empty()) {
      rows_.clear();
      for (const size_t i : drawing_) rows_.push_back({active_[i].row, cache_.length(active_[i].row)});
      std::span<const int32_t> drawn;
      runner_.profile().measure(Profile::kSampling,
                                [&] { drawn = sampler_.draw(logits, rows_, runner_.stream()); });
      // From the back, so that a row that finishes leaves the indices before it as they are.
      for (size_t k = drawing_.size(); k-- > 0;) take(drawing_[k], drawn[k]);
    }
    (prefill ? stats_.prefill_s : stats_.decode_s) +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  void take(size_t index, int32_t token) {
    Active& a = active_[index];
    const Request& request = requests_[static_cast<size_t>(a.request)];
    Answer& out = answer(a);
    out.tokens.push_back(token);
    ++drawn_;
    if (tokenizer_.is_end(token) && !request.ignore_end) return finish(index, StopReason::kEnd);
    if (!tokenizer_.is_control(token))
      give_text(a, a.characters.push(a.stop.push(tokenizer_.token_bytes(token))));
    if (a.stop.stopped()) return finish(index, StopReason::kStop);
    if (std::ssize(out.tokens) >= request.max_tokens || cache_.length(a.row) >= cache_.capacity(a.row))
      finish(index, StopReason::kLength);
  }

  void finish(size_t index, StopReason reason) {
    Active& a = active_[index];
    give_text(a, a.characters.push(a.stop.flush()));
    give_text(a, a.characters.flush());
    answer(a).reason = reason;
    cache_.close(a.row);
    free_rows_.push_back(a.row);
    observer_.done(a.request, answer(a));
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void give_text(const Active& a, const std::string& text) {
    if (text.empty()) return;
    answer(a).text += text;
    observer_.text(a.request, text);
  }

  const std::vector<int32_t>& prompt(const Active& a) const {
    return requests_[static_cast<size_t>(a.request)].prompt;
  }
  Answer& answer(const Active& a) { return answers_[static_cast<size_t>(a.request)]; }

  const Model& model_;
  const Tokenizer& tokenizer_;
  int64_t context_;
  const RunOptions& options_;
  std::span<const Request> requests_;
  Observer& observer_;
  RunStats& stats_;
  int64_t num_rows_;
  KvCache cache_;
  Runner runner_;
  Sampler sampler_;
  std::vector<Answer> answers_;
  std::vector<Active> active_;  // in the order of their requests
  std::vector<int64_t> free_rows_;
  std::vector<Piece> pieces_;
  std::vector<size_t> drawing_;  // indices into active_ whose logits the pass gives
  std::vector<Sampler::Row> rows_;
  int64_t next_ = 0, prompt_tokens_ = 0, drawn_ = 0, most_drawn_ = 0;
};

}  // namespace

const char* to_string(StopReason reason) {
  constexpr const char* kNames[] = {"end", "stop", "length", "cancelled"};
  return kNames[static_cast<size_t>(reason)];
}

Generator::Generator(const Model& model, const Tokenizer& tokenizer, const RunOptions& options)
    : model_(model), tokenizer_(tokenizer), options_(options), context_(options.context) {
  const int64_t most = model.config().context_length;
  if (context_ == 0) context_ = most;
  if (context_ < 1 || context_ > most)
    throw Error("generate", "context", std::to_string(context_),
                "1 to " + std::to_string(most) + ", as the model has it");
  if (tokenizer.size() != model.config().vocab_size)
    throw Error(model.file().name(), "tokenizer.ggml.tokens", std::to_string(tokenizer.size()) + " tokens",
                std::to_string(model.config().vocab_size) + ", the rows of token_embd.weight");
}

std::vector<Answer> Generator::run(std::span<const Request> requests, Observer& observer) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const Request& r = requests[i];
    const std::string where = requests.size() > 1 ? "prompt " + std::to_string(i + 1) : "prompt";
    if (r.prompt.empty()) throw Error("generate", where, "no tokens", "at least one");
    if (std::ssize(r.prompt) > context_)
      throw Error("generate", where, std::to_string(r.prompt.size()) + " tokens",
                  "at most " + std::to_string(context_) + ", the context");
    for (const int32_t id : r.prompt)
      if (id < 0 || id >= model_.config().vocab_size)
        throw Error("generate", where, "token " + std::to_string(id),
                    "ids below " + std::to_string(model_.config().vocab_size));
    r.sampling.check();
  }
  stats_ = {};
  Run run(model_, tokenizer_, context_, options_, requests, observer, stats_);
  cache_bytes_ = run.cache().bytes();
  buffer_bytes_ = run.runner().buffer_bytes();
  std::vector<Answer> answers = run.go();
  profile_ = run.runner().profile();
  replays_ = run.runner().replays();
  return answers;
}

}  // namespace musaic::llm
