#include <cstdio>

#include "cli/commands.h"
#include "musaic/registry.h"

namespace musaic::cli {

void add_list(CLI::App& app) {
  app.add_subcommand("list", "The operators' schemas, one a line")->callback([] {
    for (const OpInfo& op : operators()) std::printf("%s\n", op.schema);
  });
}

}  // namespace musaic::cli
