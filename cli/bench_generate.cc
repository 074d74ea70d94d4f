#include <cstdio>
#include <memory>
#include <vector>

#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/report.h"
#include "llm/generate.h"

namespace musaic::cli {
namespace {

struct Options {
  ModelOptions model;
  int64_t prompt_tokens = 128, tokens = 128, batch = 1;
  llm::RunOptions run;
  bool json = false;
};

/// Prompts of any tokens: the time does not depend on which.
llm::Request request_of(int64_t index, int64_t prompt_tokens, int64_t tokens, int64_t vocab_size) {
  llm::Request r;
  for (int64_t i = 0; i < prompt_tokens; ++i)
    r.prompt.push_back(static_cast<int32_t>((index * 7919 + i * 104729 + 17) % vocab_size));
  r.max_tokens = tokens;
  r.sampling.temperature = 0;
  r.ignore_end = true;
  return r;
}

void bench(const Options& o) {
  const llm::Model model = llm::Model::open(o.model.model, apply(o.model));
  const llm::Tokenizer tokenizer = llm::Tokenizer::from_gguf(model.file());
  llm::RunOptions run = o.run;
  run.rows = o.batch;
  llm::Generator generator(model, tokenizer, run);
  llm::Observer silent;
  const auto requests = [&](int64_t prompt_tokens, int64_t tokens) {
    std::vector<llm::Request> all;
    for (int64_t i = 0; i < o.batch; ++i)
      all.push_back(request_of(i, prompt_tokens, tokens, model.config().vocab_size));
    return all;
  };
  generator.run(requests(8, 8), silent);  // brings the file into memory and wakes the threads
  generator.run(requests(o.prompt_tokens, o.tokens), silent);
  const Report report = report_of(model, generator, run.profile);
  if (o.json)
    std::printf("%s\n", report.json().dump().c_str());
  else
    std::fputs(report.text().c_str(), stdout);
}

}  // namespace

void add_bench_generate(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* c =
      app.add_subcommand("bench-generate", "Measures prefill and decode on prompts of any tokens")->group("");
  add_model_options(*c, o->model);
  c->add_option("--prompt-tokens", o->prompt_tokens)->check(CLI::Range(1, 1 << 20))->capture_default_str();
  c->add_option("--tokens", o->tokens)->check(CLI::Range(1, 1 << 20))->capture_default_str();
  c->add_option("--batch", o->batch)->check(CLI::Range(1, 4096))->capture_default_str();
  c->add_option("--pass-tokens", o->run.pass_tokens)->check(CLI::Range(1, 1 << 16))->capture_default_str();
  c->add_flag("--json", o->json);
  c->add_flag("--profile", o->run.profile);
  c->callback([o] { bench(*o); });
}

}  // namespace musaic::cli
