// The program's commands: each adds itself to the command line and runs when it was chosen.
#pragma once

#include <CLI/CLI.hpp>

namespace musaic::cli {

/// Exit codes: 0 done, 1 an error (one line on standard error), 130 ended by Ctrl-C.
inline constexpr int kInterrupted = 130;

// `exit_code` is 0 before and what the command leaves behind.
void add_generate(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app);
void add_info(CLI::App& app);
void add_list(CLI::App& app);
void add_tiny_model(CLI::App& app);
void add_tour(CLI::App& app, int& exit_code);
// For measurements and proofs; not shown in the help.
void add_bench_generate(CLI::App& app);
void add_logits(CLI::App& app);

}  // namespace musaic::cli
