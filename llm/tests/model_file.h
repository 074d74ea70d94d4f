// The real model that some tests need.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace musaic::llm {

/// Path of SmolLM2-135M-Instruct.Q4_1.gguf: MUSAIC_MODEL, or the cache folder of `musaic`. "" when it is not
/// there.
inline std::string model_file() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  std::string path = variable("MUSAIC_MODEL");
  if (path.empty()) {
    const std::string cache = variable("XDG_CACHE_HOME");
    path = (cache.empty() ? variable("HOME") + "/.cache" : cache) + "/musaic/SmolLM2-135M-Instruct.Q4_1.gguf";
  }
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) ? path : "";
}

/// True when MUSAIC_OFFLINE=1: tests that need the model may be skipped.
inline bool offline() {
  const char* value = std::getenv("MUSAIC_OFFLINE");
  return value != nullptr && std::string(value) == "1";
}

}  // namespace musaic::llm

/// In a test: sets `path` to the model file. Without the file the test fails, or is skipped if
/// MUSAIC_OFFLINE=1.
#define MUSAIC_NEED_MODEL(path)                                                                              \
  const std::string path = musaic::llm::model_file();                                                        \
  if (path.empty()) {                                                                                        \
    if (musaic::llm::offline()) GTEST_SKIP() << "MUSAIC_OFFLINE=1 and no model file: not compared";          \
    FAIL() << "needs SmolLM2-135M-Instruct.Q4_1.gguf: set MUSAIC_MODEL to its path, or MUSAIC_OFFLINE=1 to " \
              "skip";                                                                                        \
  }
