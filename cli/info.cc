#include <cstdio>
#include <filesystem>

#include "cli/commands.h"
#include "cli/model_options.h"
#include "musaic/registry.h"
#include "musaic/stream.h"
#include "musaic/version.h"

namespace musaic::cli {

void add_info(CLI::App& app) {
  app.add_subcommand("info", "What this build is and what it found on this machine")->callback([] {
    std::printf("musaic %s\n", MUSAIC_VERSION);
    std::printf("backends: cpu\n");
    std::printf("cpu path: %s (MUSAIC_CPU chooses another)\n", cpu_path());
    std::printf("threads: %d\n", num_threads());
    std::error_code ignored;
    const std::string model = default_model_path();
    std::printf("model: %s%s\n", model.c_str(),
                std::filesystem::exists(model, ignored) ? "" : " (not there)");
    std::printf("operators: %zu\n", operators().size());
    for (const OpInfo& op : operators()) std::printf("  %s\n", op.name);
  });
}

}  // namespace musaic::cli
