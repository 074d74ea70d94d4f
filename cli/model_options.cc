#include "cli/model_options.h"

#include <cstdlib>
#include <filesystem>

#include "cli/devices.h"
#include "musaic/device.h"
#include "musaic/error.h"
#include "musaic/stream.h"

namespace musaic::cli {

std::string default_model_path() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string folder =
      cache != nullptr && *cache != 0 ? cache : std::string(home != nullptr ? home : "") + "/.cache";
  return folder + "/musaic/SmolLM2-135M-Instruct.Q4_1.gguf";
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  options.model = default_model_path();
  command.add_option("-m,--model", options.model, "GGUF file of a llama")->capture_default_str();
  command.add_option("--device", options.device, "where to compute, by the name that musaic info prints")
      ->capture_default_str();
  command.add_option("-t,--threads", options.threads, "threads; 0: all processors")
      ->check(CLI::Range(0, 1024));
}

Device apply(const ModelOptions& options) {
  Device device;
  try {
    device = find_device(options.device);
    device_properties(device);
  } catch (const Error&) {
    std::string names;
    for (const std::string& name : every_device()) names += (names.empty() ? "" : ", ") + name;
    throw Error("--device", "\"" + options.device + "\"", "a device that this build or machine does not have",
                "one of: " + names);
  }
  std::error_code ignored;
  if (options.model == default_model_path() && !std::filesystem::exists(options.model, ignored))
    throw Error("no model at " + options.model +
                ": give --model FILE, run ./quickstart to fetch one, or write a " +
                "meaningless one with: musaic tiny-model FILE");
  set_num_threads(options.threads);
  return device;
}

}  // namespace musaic::cli
