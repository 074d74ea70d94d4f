#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "cli/commands.h"
#include "llm/mapping.h"
#include "musaic/version.h"

namespace {

/// One line, whatever the text holds.
int complain(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 32) c = ' ';
  std::fflush(stdout);
  std::fprintf(stderr, "musaic: %s\n", text.c_str());
  return 1;
}

int run(int argc, char** argv) {
  CLI::App app("Language-model operators that give the same bits everywhere, and what can be done with them.",
               "musaic");
  app.set_version_flag("--version", "musaic " MUSAIC_VERSION);
  app.require_subcommand(1);
  app.option_defaults()->take_last();  // what is given twice is meant as given last
  int exit_code = 0;
  musaic::cli::add_generate(app, exit_code);
  musaic::cli::add_check(app, exit_code);
  musaic::cli::add_bench(app);
  musaic::cli::add_info(app);
  musaic::cli::add_list(app);
  musaic::cli::add_tiny_model(app);
  musaic::cli::add_tour(app, exit_code);
  musaic::cli::add_bench_generate(app);
  musaic::cli::add_logits(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty())
      return complain("there is no command \"" + std::string(argv[1]) +
                      "\" (musaic --help lists what there is)");
    return complain(std::string(e.what()) + " (musaic --help lists what there is)");
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    musaic::llm::install_sigbus_guard();
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return complain("out of memory");
  } catch (const std::exception& e) {
    return complain(e.what());
  }
}
