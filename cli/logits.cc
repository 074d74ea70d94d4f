#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/model_options.h"
#include "llm/runner.h"
#include "musaic/device.h"
#include "musaic/error.h"

namespace musaic::cli {
namespace {

struct Options {
  ModelOptions model;
  std::vector<int32_t> tokens;
  std::string out, trace;
  int64_t pass_tokens = 32;
};

/// Header of a .npy file, version 1.0, for little-endian float32 in row-major order.
std::string npy_header(int64_t rows, int64_t cols) {
  std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                     std::to_string(cols) + "), }";
  dict.append(63 - (10 + dict.size()) % 64, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 255);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

void logits(const Options& o) {
  const llm::Model model = llm::Model::open(o.model.model, apply(o.model));
  const auto count = static_cast<int64_t>(o.tokens.size());
  const int64_t pages = llm::KvCache::pages_for(count);
  llm::KvCache cache(model.config(), 1, pages, pages, model.device());
  cache.open(0, count);
  llm::Runner runner(model, cache, {count, o.pass_tokens, 1, o.pass_tokens});

  std::ofstream trace;
  if (!o.trace.empty()) {
    trace.open(o.trace, std::ios::binary);
    runner.set_trace(
        [&trace](const Tensor& t) { trace.write(t.data_as<char>(), t.numel() * size_bytes(t.dtype())); });
  }
  std::ofstream file(o.out, std::ios::binary);
  file << npy_header(count, model.config().vocab_size);
  for (int64_t begin = 0; begin < count; begin += o.pass_tokens) {
    const auto n = static_cast<size_t>(std::min(o.pass_tokens, count - begin));
    const llm::Piece piece{0, std::span(o.tokens).subspan(static_cast<size_t>(begin), n),
                           llm::Piece::Logits::kAll};
    const Tensor rows = runner.forward({&piece, 1});
    std::vector<char> bytes(static_cast<size_t>(rows.numel() * size_bytes(rows.dtype())));
    copy_to_host(model.device(), bytes.data(), rows.data(), std::ssize(bytes), runner.stream());
    check(model.device(), runner.stream());
    file.write(bytes.data(), std::ssize(bytes));
  }
  file.close();
  trace.close();
  if (!file || (!o.trace.empty() && !trace))
    throw Error("cannot write " + o.out + " or the trace: " + std::strerror(errno));
}

}  // namespace

void add_logits(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* c =
      app.add_subcommand("logits", "Writes the logits of all positions of a token sequence")->group("");
  add_model_options(*c, o->model);
  c->add_option("--tokens", o->tokens, "token ids, separated by commas")
      ->take_all()
      ->delimiter(',')
      ->required();
  c->add_option("--out", o->out, "file to write: .npy, float32 [tokens, vocabulary]")->required();
  c->add_option("--trace", o->trace, "also writes the inputs of all products, raw float32, pass by pass");
  c->add_option("--pass-tokens", o->pass_tokens, "tokens of a pass; the logits do not depend on it")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  c->callback([o] { logits(*o); });
}

}  // namespace musaic::cli
