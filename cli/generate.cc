#include "llm/generate.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/report.h"
#include "cli/terminal.h"
#include "llm/chat.h"
#include "llm/tokenizer.h"
#include "musaic/error.h"
#include "musaic/version.h"

namespace musaic::cli {
namespace {

struct Options {
  ModelOptions model;
  std::string prompt, prompts_file, system;
  bool has_prompt = false, has_system = false;
  llm::Sampling sampling;
  llm::RunOptions run;
  int64_t max_tokens = 256;
  std::vector<std::string> stops;
  bool raw = false, json = false;
};

std::vector<std::string> read_prompts(const Options& o) {
  if (o.has_prompt == !o.prompts_file.empty())
    throw Error(o.has_prompt ? "generate: a prompt or --prompts FILE, not both"
                             : "generate: give a prompt, or --prompts FILE");
  if (o.has_prompt) return {o.prompt};
  std::ifstream file(o.prompts_file, std::ios::binary);
  std::vector<std::string> prompts;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    prompts.push_back(line);
  }
  if (!file.eof() || prompts.empty())
    throw Error("generate", "--prompts " + o.prompts_file, "no lines",
                "a readable file with one prompt a line");
  return prompts;
}

/// The prompt as the model wants it. A text without tokens starts from the begin token, if the model has one.
std::vector<int32_t> to_tokens(const Options& o, const llm::Tokenizer& tokenizer, const llm::ChatFormat& chat,
                               const std::string& prompt) {
  if (!o.raw && chat.is_chatml()) {
    std::vector<llm::ChatMessage> messages;
    if (o.has_system) messages.push_back({"system", o.system});
    messages.push_back({"user", prompt});
    return chat.render(tokenizer, messages);
  }
  std::vector<int32_t> ids = tokenizer.encode_prompt(o.has_system ? o.system + "\n" + prompt : prompt);
  if (ids.empty() && tokenizer.bos()) ids.push_back(*tokenizer.bos());
  return ids;
}

void put(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

/// Shows a run to a person: text as it comes for one prompt, answer after answer for several.
class Screen : public llm::Observer {
 public:
  Screen(const Options& options, const std::vector<std::string>& prompts)
      : options_(options), prompts_(prompts) {}

  void text(int64_t, std::string_view text) override {
    if (options_.json || prompts_.size() > 1) return;
    bar_.clear();
    put(text);
    std::fflush(stdout);
    streaming_ = true;
  }

  void progress(int64_t prefilled, int64_t prompt_tokens, int64_t drawn, int64_t most) override {
    if (prefilled < prompt_tokens)
      bar_.show("prompt", prefilled, prompt_tokens);
    else if (!streaming_ || !stdout_is_terminal())  // text that grows is progress enough
      bar_.show("answer", drawn, most);
  }

  bool cancelled() override { return Interrupt::pressed(); }

  void finish(const std::vector<llm::Answer>& answers) {
    bar_.clear();
    if (options_.json) return;
    if (answers.size() == 1) return put("\n");
    for (size_t i = 0; i < answers.size(); ++i)
      put("[" + std::to_string(i + 1) + "] " + prompts_[i] + "\n" + answers[i].text + "\n\n");
  }

 private:
  const Options& options_;
  const std::vector<std::string>& prompts_;
  ProgressBar bar_;
  bool streaming_ = false;
};

nlohmann::json to_json(const Options& o, const std::vector<std::string>& prompts,
                       const std::vector<llm::Request>& requests, const std::vector<llm::Answer>& answers,
                       const Report& report) {
  nlohmann::json out = {{"musaic", MUSAIC_VERSION},
                        {"model", o.model.model},
                        {"device", o.model.device},
                        {"seed", o.sampling.seed},
                        {"temperature", o.sampling.temperature},
                        {"stats", report.json()},
                        {"graph_replays", report.replays},
                        {"answers", nlohmann::json::array()}};
  for (size_t i = 0; i < answers.size(); ++i)
    out["answers"].push_back({{"prompt", prompts[i]},
                              {"prompt_tokens", requests[i].prompt},
                              {"text", answers[i].text},
                              {"tokens", answers[i].tokens},
                              {"stop_reason", llm::to_string(answers[i].reason)}});
  return out;
}

int generate(const Options& o) {
  const std::vector<std::string> prompts = read_prompts(o);
  o.sampling.check();
  const Device device = apply(o.model);
  if (device.type == DeviceType::kSimt && !o.json)
    std::fprintf(
        stderr,
        "musaic: note: %s is simulated on this CPU, with every check; its times say nothing about a GPU\n",
        o.model.device.c_str());
  const llm::Model model = llm::Model::open(o.model.model, device);
  const llm::Tokenizer tokenizer = llm::Tokenizer::from_gguf(model.file());
  const llm::ChatFormat chat(model.file(), tokenizer);
  if (!o.raw && !chat.notice().empty()) std::fprintf(stderr, "musaic: note: %s\n", chat.notice().c_str());

  std::vector<llm::Request> requests;
  for (const std::string& prompt : prompts) {
    llm::Request request;
    request.prompt = to_tokens(o, tokenizer, chat, prompt);
    request.sampling = o.sampling;
    request.max_tokens = o.max_tokens;
    request.stops = o.stops;
    requests.push_back(std::move(request));
  }

  const Interrupt interrupt;
  llm::Generator generator(model, tokenizer, o.run);
  Screen screen(o, prompts);
  const std::vector<llm::Answer> answers = generator.run(requests, screen);
  screen.finish(answers);
  const Report report = report_of(model, generator, o.run.profile);
  if (o.json)
    put(to_json(o, prompts, requests, answers, report)
            .dump(1, ' ', false, nlohmann::json::error_handler_t::replace) +
        "\n");
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw Error(std::string("generate: cannot write to standard output: ") + std::strerror(errno));
  std::fputs(report.text().c_str(), stderr);
  return Interrupt::pressed() ? kInterrupted : 0;
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("generate", "Answers a prompt with a llama model");
  add_model_options(*c, o->model);
  CLI::Option* prompt = c->add_option("prompt,--prompt", o->prompt, "what to answer");
  c->add_option("--prompts", o->prompts_file, "file with one prompt a line: answers all, in this order");
  CLI::Option* system = c->add_option("--system", o->system, "system text, in place of the model's own");
  c->add_option("-n,--tokens", o->max_tokens, "most tokens of an answer")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str();
  c->add_option("--temperature", o->sampling.temperature, "0: always the most probable token")
      ->capture_default_str();
  c->add_option("--top-k", o->sampling.top_k, "draw from the k most probable tokens; 0: from all")
      ->capture_default_str();
  c->add_option("--top-p", o->sampling.top_p, "draw from the most probable tokens of this share; 1: from all")
      ->capture_default_str();
  c->add_option("--min-p", o->sampling.min_p,
                "draw from tokens with this share of the best one's probability; 0: from all")
      ->capture_default_str();
  c->add_option("--seed", o->sampling.seed, "the same seed gives the same text")->capture_default_str();
  c->add_option("--stop", o->stops, "string that ends an answer; may be given again")
      ->take_all()
      ->allow_extra_args(false);
  c->add_option("--context", o->run.context,
                "most tokens of prompt and answer; 0: what the model was made for")
      ->check(CLI::Range(0, 1 << 24));
  c->add_option("--batch", o->run.rows, "most prompts at a time; answers do not depend on it")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  c->add_flag("!--no-graph", o->run.graphs, "on a device: launch each step of decoding anew");
  c->add_flag("--raw", o->raw, "the prompt as it is, without the model's chat format");
  c->add_flag("--json", o->json, "answers and figures as JSON on standard output");
  c->add_flag("--profile", o->run.profile, "also say where the time went");
  c->callback([o, prompt, system, &exit_code] {
    o->has_prompt = prompt->count() > 0;
    o->has_system = system->count() > 0;
    exit_code = generate(*o);
  });
}

}  // namespace musaic::cli
