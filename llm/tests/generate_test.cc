#include "llm/generate.h"

#include <cmath>
#include <cstring>
#include <functional>

#include "llm/chat.h"
#include "llm/runner.h"
#include "llm/tests/model_file.h"
#include "llm/tests/tiny_file.h"
#include "llm/utf8.h"
#include "testing/testing.h"

namespace musaic::llm {
namespace {

using testing::expect_error;
using testing::uniform_int;

/// A tiny model with a tokenizer, kept in memory.
struct Tiny {
  explicit Tiny(const TinyModel& tiny)
      : file(tiny), model(file.open()), tokenizer(Tokenizer::from_gguf(model.file())) {}
  TinyFile file;
  Model model;
  Tokenizer tokenizer;
};

std::vector<int32_t> random_prompt(const Model& model, int64_t size) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < size; ++i)
    ids.push_back(static_cast<int32_t>(uniform_int(0, model.config().vocab_size - 1)));
  return ids;
}

Request random_request(const Model& model, int64_t prompt_tokens, int64_t max_tokens) {
  Request r;
  r.prompt = random_prompt(model, prompt_tokens);
  r.max_tokens = max_tokens;
  r.sampling.temperature = 1.0f;
  r.sampling.top_p = 0.95f;
  r.sampling.seed = 7;
  return r;
}

/// Keeps what it is told, and ends the run after `steps` passes.
struct Listener : Observer {
  explicit Listener(int64_t most_steps = 1 << 30) : steps(most_steps) {}
  void text(int64_t request, std::string_view text) override {
    EXPECT_TRUE(utf8_valid(text));
    texts.resize(std::max(texts.size(), static_cast<size_t>(request) + 1));
    texts[static_cast<size_t>(request)] += text;
  }
  void done(int64_t, const Answer&) override { ++num_done; }
  bool cancelled() override { return steps-- <= 0; }
  int64_t steps, num_done = 0;
  std::vector<std::string> texts;
};

std::vector<Answer> run(const Model& model, const Tokenizer& tokenizer, const std::vector<Request>& requests,
                        const RunOptions& options = {}) {
  Listener listener;
  std::vector<Answer> answers = Generator(model, tokenizer, options).run(requests, listener);
  EXPECT_EQ(listener.num_done, std::ssize(requests));
  listener.texts.resize(answers.size());
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(listener.texts[i], answers[i].text);
  check();  // no operator met a bad id, slot or page
  return answers;
}

/// The answers are the same alone, in batches of any size, however prompts are cut, with any number of
/// threads.
void expect_each_as_if_alone(const Model& model, const Tokenizer& tokenizer,
                             const std::vector<Request>& requests, bool thorough) {
  set_num_threads(1);
  std::vector<Answer> alone;
  for (const Request& r : requests) alone.push_back(run(model, tokenizer, {r})[0]);
  for (const int threads : {1, 2, 3})
    for (const int64_t rows : {1, 4, 9})
      for (const int64_t pass_tokens : {1, 7, 128}) {
        if (!thorough && (threads == 3 || rows == 4 || pass_tokens == 1)) continue;
        set_num_threads(threads);
        const std::vector<Answer> batch =
            run(model, tokenizer, requests, {.rows = rows, .pass_tokens = pass_tokens});
        for (size_t i = 0; i < requests.size(); ++i) {
          EXPECT_EQ(batch[i].tokens, alone[i].tokens)
              << threads << " threads, " << rows << " rows, request " << i;
          EXPECT_EQ(batch[i].text, alone[i].text);
          EXPECT_EQ(batch[i].reason, alone[i].reason);
        }
      }
  set_num_threads(0);
}

TEST(Generate, EachRequestAsIfAlone) {
  for (const GgmlType type : {GgmlType::kQ4_1, GgmlType::kQ8_0, GgmlType::kF32})
    for (const bool plain : {true, false}) {
      const Tiny tiny({.seed = testing::rng()(), .type = type, .tied = plain, .biases = !plain});
      std::vector<Request> requests;
      for (int i = 0; i < 9; ++i)
        requests.push_back(random_request(tiny.model, uniform_int(1, 40), uniform_int(1, 20)));
      requests[4].sampling.temperature = 0;
      requests[5].sampling.top_k = 5;
      expect_each_as_if_alone(tiny.model, tiny.tokenizer, requests, type == GgmlType::kQ4_1);
    }
}

TEST(Generate, RealModelEachRequestAsIfAlone) {
  MUSAIC_NEED_MODEL(path);
  const Model model = Model::open(path);
  const Tokenizer tokenizer = Tokenizer::from_gguf(model.file());
  const ChatFormat chat(model.file(), tokenizer);
  std::vector<Request> requests;
  for (const char* prompt :
       {"Why is the sky blue?", "Hi", "Count to ten.", "Name three rivers.", "2 + 2 =", "Write a haiku.",
        "What is a llama?", "Say it in French: good morning", "Why?"}) {
    const ChatMessage message{"user", prompt};
    Request r;
    r.prompt = chat.render(tokenizer, {&message, 1});
    r.sampling.temperature = 0.8f;
    r.sampling.seed = 7;
    r.max_tokens = 12;
    requests.push_back(r);
  }
  expect_each_as_if_alone(model, tokenizer, requests, false);
}

TEST(Runner, LogitsDoNotDependOnTheCutOrOnTheOtherRows) {
  const Tiny tiny({.seed = testing::rng()()});
  const int64_t n = 50, vocab = tiny.model.config().vocab_size;
  const std::vector<int32_t> ids = random_prompt(tiny.model, n), others = random_prompt(tiny.model, 90);
  KvCache cache(tiny.model.config(), 2, 8, 12);
  Runner runner(tiny.model, cache, {100, 64, 2, 64});
  std::vector<float> whole, cut;
  const auto keep = [vocab](std::vector<float>& to, const Tensor& rows, int64_t count) {
    to.insert(to.end(), rows.data_as<float>(), rows.data_as<float>() + count * vocab);
  };
  cache.open(0, n);
  const Piece all{0, ids, Piece::Logits::kAll};
  keep(whole, runner.forward({&all, 1}), n);
  for (const float x : whole) ASSERT_TRUE(std::isfinite(x));

  cache.close(0);
  cache.open(1, 90);  // other pages than before
  cache.open(0, n);
  for (int64_t at = 0, other = 0; at < n;) {
    const int64_t count = std::min<int64_t>(uniform_int(1, 9), n - at),
                  more = std::min<int64_t>(uniform_int(0, 9), 90 - other);
    const Piece pieces[] = {
        {0, std::span(ids).subspan(static_cast<size_t>(at), static_cast<size_t>(count)), Piece::Logits::kAll},
        {1, std::span(others).subspan(static_cast<size_t>(other), static_cast<size_t>(more)),
         Piece::Logits::kLast}};
    keep(cut, runner.forward(pieces), count);
    at += count;
    other += more;
  }
  ASSERT_EQ(whole.size(), cut.size());
  EXPECT_EQ(std::memcmp(whole.data(), cut.data(), whole.size() * sizeof(float)), 0);
  check();
}

TEST(Runner, RefusesWhatDoesNotFit) {
  const Tiny tiny({});
  KvCache cache(tiny.model.config(), 2, 2, 4);
  Runner runner(tiny.model, cache, {32, 8, 1, 1});
  cache.open(0, 10);
  cache.open(1, 10);
  const auto forward = [&](std::vector<int32_t> ids) {
    const Piece piece{0, ids, Piece::Logits::kLast};
    runner.forward({&piece, 1});
  };
  expect_error([&] { forward({-1}); }, {"token: -1"});
  expect_error([&] { forward({267}); }, {"token: 267", "below 267"});
  expect_error([&] { forward(std::vector<int32_t>(9)); }, {"pass: 9 tokens", "at most 8"});
  forward(std::vector<int32_t>(8));
  expect_error([&] { forward(std::vector<int32_t>(3)); }, {"row 0", "11 tokens", "at most 10"});
  EXPECT_EQ(cache.length(0), 8);
  const int32_t id = 0;
  const Piece two[] = {{0, {&id, 1}, Piece::Logits::kLast}, {1, {&id, 1}, Piece::Logits::kLast}};
  expect_error([&] { runner.forward(two); }, {"2 rows"});
}

TEST(Generate, ContextEndsAnAnswer) {
  const Tiny tiny({.seed = testing::rng()()});
  for (const int64_t rows : {1, 8, 64})
    for (const int64_t prompt_tokens : {1, 15, 16, 17, 1000}) {
      std::vector<Request> requests;
      for (int64_t i = 0; i < rows; ++i) {
        requests.push_back(random_request(tiny.model, prompt_tokens, 20));
        requests.back().ignore_end = true;
      }
      const RunOptions options{.context = 16, .rows = rows};
      if (prompt_tokens > 16) {
        expect_error(
            [&] { run(tiny.model, tiny.tokenizer, requests, options); },
            {"generate", "prompt", std::to_string(prompt_tokens) + " tokens", "at most 16, the context"});
        continue;
      }
      for (const Answer& a : run(tiny.model, tiny.tokenizer, requests, options)) {
        EXPECT_EQ(std::ssize(a.tokens), std::min<int64_t>(20, 16 - prompt_tokens + 1));
        EXPECT_EQ(a.reason, StopReason::kLength);
      }
    }
  expect_error([&] { run(tiny.model, tiny.tokenizer, {random_request(tiny.model, 0, 5)}); },
               {"prompt", "no tokens"});
  expect_error([&] { run(tiny.model, tiny.tokenizer, {}, {.context = 513}); },
               {"context", "513", "1 to 512"});
  expect_error([&] { run(tiny.model, tiny.tokenizer, {}, {.context = -1}); }, {"context", "-1"});
}

TEST(Generate, ContextOnceFullIsNoOtherText) {
  const Tiny tiny({.seed = testing::rng()()});
  Request r = random_request(tiny.model, 10, 40);
  r.ignore_end = true;
  const Answer roomy = run(tiny.model, tiny.tokenizer, {r})[0];
  const Answer tight = run(tiny.model, tiny.tokenizer, {r}, {.context = 30})[0];
  ASSERT_EQ(roomy.tokens.size(), 40u);
  ASSERT_EQ(tight.tokens.size(), 21u);
  EXPECT_TRUE(std::equal(tight.tokens.begin(), tight.tokens.end(), roomy.tokens.begin()));
}

TEST(Generate, NothingToDo) {
  const Tiny tiny({});
  EXPECT_TRUE(run(tiny.model, tiny.tokenizer, {}).empty());
  const std::vector<Answer> none =
      run(tiny.model, tiny.tokenizer, {random_request(tiny.model, 3, 0), random_request(tiny.model, 3, 1)});
  EXPECT_TRUE(none[0].tokens.empty());
  EXPECT_EQ(none[0].reason, StopReason::kLength);
  EXPECT_EQ(none[1].tokens.size(), 1u);
}

TEST(Generate, StopStringsAcrossTokenBorders) {
  int64_t across = 0;
  for (int round = 0; round < 20; ++round) {
    const Tiny tiny({.seed = testing::rng()()});
    Request r = random_request(tiny.model, 5, 60);
    r.ignore_end = true;
    const Answer free = run(tiny.model, tiny.tokenizer, {r})[0];
    // Bytes of three tokens in a row, the first and the last cut where they can be.
    const auto at = static_cast<size_t>(uniform_int(0, 50));
    std::string before, stop;
    for (size_t i = 0; i < at + 3; ++i)
      if (!tiny.tokenizer.is_control(free.tokens[i]))
        (i < at ? before : stop) += tiny.tokenizer.token_bytes(free.tokens[i]);
    if (stop.empty()) continue;
    across += stop.size() > 1;
    r.stops = {"never in the text", stop};
    const Answer stopped = run(tiny.model, tiny.tokenizer, {r})[0];
    const std::string all = before + stop;
    Utf8Stream characters;
    std::string expected = characters.push(std::string_view(all).substr(0, all.find(stop)));
    expected += characters.flush();
    EXPECT_EQ(stopped.text, expected);
    EXPECT_EQ(stopped.reason, StopReason::kStop);
    EXPECT_LE(stopped.tokens.size(), at + 3);
  }
  EXPECT_GT(across, 0);
}

TEST(Generate, ValuesThatMeanOff) {
  const Tiny tiny({.seed = testing::rng()()});
  const auto text = [&](const std::function<void(Sampling&)>& change) {
    Request r;
    r.prompt = {5, 6, 7};
    r.max_tokens = 30;
    r.ignore_end = true;
    r.sampling = {1.0f, 0, 1.0f, 0.0f, 99};
    change(r.sampling);
    return run(tiny.model, tiny.tokenizer, {r})[0].tokens;
  };
  const auto all = text([](Sampling&) {});
  for (const int64_t k :
       {int64_t{-1}, tiny.model.config().vocab_size, tiny.model.config().vocab_size + 1, int64_t{1} << 30})
    EXPECT_EQ(text([k](Sampling& s) { s.top_k = k; }), all) << k;
  EXPECT_EQ(text([](Sampling& s) { s.top_p = 1.5f; }), all);
  EXPECT_EQ(text([](Sampling& s) { s.min_p = -0.5f; }), all);
  const auto best = text([](Sampling& s) { s.temperature = 0; });
  EXPECT_EQ(text([](Sampling& s) { s.top_k = 1; }), best);
  EXPECT_EQ(text([](Sampling& s) { s.top_p = 0; }), best);
  EXPECT_EQ(text([](Sampling& s) { s.top_p = -1; }), best);
  EXPECT_NE(all, best);
  EXPECT_NE(text([](Sampling& s) { s.seed = 100; }), all);
  for (const float bad : {-1.0f, INFINITY, NAN})
    expect_error([&] { text([bad](Sampling& s) { s.temperature = bad; }); }, {"temperature"});
  expect_error([&] { text([](Sampling& s) { s.top_p = NAN; }); }, {"top-p"});
  expect_error([&] { text([](Sampling& s) { s.min_p = NAN; }); }, {"min-p"});
}

TEST(Generate, CancelKeepsWhatThereIs) {
  const Tiny tiny({.seed = testing::rng()()});
  Request r = random_request(tiny.model, 4, 50);
  r.ignore_end = true;
  const std::vector<Answer> whole = run(tiny.model, tiny.tokenizer, {r, r, r}, {.rows = 2});
  Listener listener(6);  // one pass for the prompts, five more
  const std::vector<Answer> part =
      Generator(tiny.model, tiny.tokenizer, {.rows = 2}).run(std::vector{r, r, r}, listener);
  EXPECT_EQ(part[0].tokens, std::vector(whole[0].tokens.begin(), whole[0].tokens.begin() + 6));
  EXPECT_EQ(part[1].reason, StopReason::kCancelled);
  EXPECT_TRUE(part[2].tokens.empty());
  EXPECT_EQ(listener.texts[0], part[0].text);
}

TEST(Generate, ChecksRequests) {
  const Tiny tiny({});
  Request r = random_request(tiny.model, 3, 3);
  r.prompt[1] = 267;
  expect_error([&] { run(tiny.model, tiny.tokenizer, {random_request(tiny.model, 3, 3), r}); },
               {"prompt 2", "token 267"});
}

#if defined(MUSAIC_HAS_SIMT)
// Greedy tokens on a simulated device are the CPU's, with prompts cut into passes, several rows, and steps that are launched
// or replayed; and so are drawn ones, since logits have the same bits up to attention's tolerance.
TEST(Generator, SameTokensOnADevice) {
  TinyModel tiny;
  tiny.seed = static_cast<uint64_t>(uniform_int(0, 1 << 30));
  const TinyFile file(tiny);
  const Model here(file.open());
  const Tokenizer tokenizer = Tokenizer::from_gguf(here.file());
  std::vector<Request> requests;
  for (const int64_t size : {1, 9, 4}) {
    Request r = random_request(here, size, 4);
    r.sampling.temperature = 0;
    r.ignore_end = true;
    requests.push_back(r);
  }
  Observer silent;
  RunOptions options;
  options.rows = 2;
  options.pass_tokens = 8;
  Generator on_cpu(here, tokenizer, options);
  const std::vector<Answer> expected = on_cpu.run(requests, silent);
  for (const char* name : {"simt:musa-mp31", "simt:musa-mp22"}) {
    const Model there(file.open(), find_device(name));
    for (const bool graphs : {true, false}) {
      options.graphs = graphs;
      Generator on_device(there, tokenizer, options);
      const std::vector<Answer> answers = on_device.run(requests, silent);
      for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(answers[i].tokens, expected[i].tokens) << name;
      EXPECT_EQ(on_device.replays() > 0, graphs);
    }
  }
}

TEST(Generator, BiasesOnADevice) {
  TinyModel tiny;
  tiny.biases = true;
  const TinyFile file(tiny);
  const Model here(file.open()), there(file.open(), find_device("simt:musa-mp31"));
  const Tokenizer tokenizer = Tokenizer::from_gguf(here.file());
  Request r = random_request(here, 3, 3);
  r.sampling.temperature = 0;
  Observer silent;
  const std::vector<Request> requests = {r};
  Generator on_cpu(here, tokenizer, {}), on_device(there, tokenizer, {});
  EXPECT_EQ(on_device.run(requests, silent)[0].tokens, on_cpu.run(requests, silent)[0].tokens);
}
#endif

}  // namespace
}  // namespace musaic::llm
