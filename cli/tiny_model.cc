#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "llm/tiny.h"

namespace musaic::cli {

void add_tiny_model(CLI::App& app) {
  struct Options {
    std::string path;
    llm::TinyModel tiny;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("tiny-model", "Writes a small llama with random weights; its words mean nothing");
  command->add_option("path", options->path, "GGUF file to write")->required();
  command->add_option("--seed", options->tiny.seed, "the same seed gives the same file")
      ->capture_default_str();
  // What the tests compare; the plain model is the one to use.
  const std::map<std::string, llm::GgmlType> types = {
      {"Q4_1", llm::GgmlType::kQ4_1}, {"Q8_0", llm::GgmlType::kQ8_0}, {"F32", llm::GgmlType::kF32}};
  command->add_option("--type", options->tiny.type)->transform(CLI::CheckedTransformer(types))->group("");
  command->add_flag("!--untied", options->tiny.tied)->group("");
  command->add_flag("--biases", options->tiny.biases)->group("");
  command->callback([options] {
    llm::write_tiny_model(options->tiny, options->path);
    std::fprintf(stderr, "musaic: wrote %s: random weights, its words mean nothing\n", options->path.c_str());
  });
}

}  // namespace musaic::cli
