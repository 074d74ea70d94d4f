// The options that all commands with a model share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "musaic/tensor.h"

namespace musaic::cli {

struct ModelOptions {
  std::string model;  ///< path of a GGUF file
  std::string device = "cpu";
  int threads = 0;  ///< 0: as many as the process may run on
};

/// Where the model lies that `quickstart` fetches: ${XDG_CACHE_HOME:-~/.cache}/musaic/.
std::string default_model_path();

void add_model_options(CLI::App& command, ModelOptions& options);

/// Checks that there is a file if it is the default one, and sets the threads; returns the device.
Device apply(const ModelOptions& options);

}  // namespace musaic::cli
