#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "backends/known.h"
#include "cli/check/check.h"
#include "cli/commands.h"
#include "cli/devices.h"
#include "cli/model_options.h"
#include "musaic/musaic.h"
#include "musaic/registry.h"
#include "musaic/version.h"

#if defined(MUSAIC_HAS_SIMT)
#include "backends/simt/device.h"
#endif

namespace musaic::cli {
namespace {

using Json = nlohmann::ordered_json;

// What the library and the program read of the environment.
constexpr const char* kVariables[] = {"MUSAIC_CPU",           "MUSAIC_MODEL",
                                      "MUSAIC_SIMT_SCHEDULE", "MUSAIC_SIMT_SEED",
                                      "MUSAIC_SIMT_WORKERS",  "MUSAIC_SIMT_STORE_BUFFERS",
                                      "XDG_CACHE_HOME",       "HOME"};

/// Where a program lies; empty if PATH does not have it.
std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  std::error_code ignored;
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty() && std::filesystem::exists(folder + "/" + name, ignored)) return folder + "/" + name;
  return "";
}

Json backends() {
  Json all = Json::array();
  for (const KnownBackend& b : kKnownBackends) {
    bool built = false;
    for (const DeviceType type : device_types()) built = built || type == b.type;
    std::string state = "built";
    if (!built)
      state = *b.option != '\0' ? std::string("not in this build (option ") + b.option + ")"
                                : "there is no such backend yet";
    if (built && device_count(b.type) == 0) state = "built; this machine has no such device";
    Json entry = {{"name", b.name}, {"built", built}, {"state", state}};
    if (*b.compiler != '\0') {
      const std::string at = find_program(b.compiler);
      entry["compiler"] = at.empty() ? std::string(b.compiler) + " is not in PATH" : at;
    }
    all.push_back(entry);
  }
  return all;
}

Json describe(const std::string& name) {
  const Device device = find_device(name);
  const DeviceProperties p = device_properties(device);
  Json d = {{"device", name},
            {"name", p.name},
            {"architecture", p.architecture},
            {"multiprocessors", p.multiprocessors},
            {"max_threads_per_block", p.max_threads_per_block},
            {"memory_bytes", p.memory_bytes},
            {"shared_bytes_per_block", p.shared_bytes_per_block},
            {"driver_version", p.driver_version},
            {"runtime_version", p.runtime_version}};
#if defined(MUSAIC_HAS_SIMT)
  if (device.type == DeviceType::kSimt) {
    const simt::DeviceRecord& t = simt::current_target();
    d["limits"] = {{"hardware_warp", t.hardware_warp},
                   {"host_warp_size", t.host_warp_size},
                   {"max_exchange_width", t.max_exchange_width},
                   {"max_shared_bytes", t.max_shared_bytes},
                   {"max_static_shared_bytes", t.max_static_shared_bytes},
                   {"constant_bytes", t.constant_bytes},
                   {"max_parameter_bytes", t.max_parameter_bytes},
                   {"bfloat16", t.has_bfloat16},
                   {"fp8", t.has_fp8}};
  }
#endif
  for (const OpInfo& op : operators())
    d["operators"][op.name] = has_operator(op.name, device) ? "shared" : "absent";
  return d;
}

Json collect() {
  std::error_code ignored;
  const std::string model = default_model_path();
  Json j = {{"musaic", MUSAIC_VERSION}, {"backends", backends()},
            {"cpu_path", cpu_path()},   {"threads", num_threads()},
            {"model", model},           {"model_exists", std::filesystem::exists(model, ignored)}};
  for (const char* variable : kVariables) {
    const char* value = std::getenv(variable);
    j["environment"][variable] = value != nullptr ? Json(value) : Json(nullptr);
  }
  for (const std::string& name : every_device()) j["devices"].push_back(describe(name));
  return j;
}

void print(const Json& j) {
  const auto text = [](const Json& v) { return v.is_string() ? v.get<std::string>() : v.dump(); };
  std::printf("musaic %s\nbackends:", MUSAIC_VERSION);
  for (const Json& b : j.at("backends"))
    if (b.at("built").get<bool>()) std::printf(" %s", text(b.at("name")).c_str());
  std::printf("\n");
  for (const Json& b : j.at("backends"))
    std::printf("  %-5s %s%s\n", text(b.at("name")).c_str(), text(b.at("state")).c_str(),
                b.contains("compiler") ? ("; compiler: " + text(b.at("compiler"))).c_str() : "");
  std::printf("cpu path: %s (MUSAIC_CPU chooses another)\nthreads: %d\nmodel: %s%s\n", cpu_path(),
              num_threads(), text(j.at("model")).c_str(),
              j.at("model_exists").get<bool>() ? "" : " (not there)");
  std::printf("environment:\n");
  for (const auto& [name, value] : j.at("environment").items())
    std::printf("  %s%s\n", name.c_str(), value.is_null() ? " is not set" : ("=" + text(value)).c_str());
  std::printf("devices:\n");
  for (const Json& d : j.at("devices")) {
    std::printf("  %s: %s, %s", text(d.at("device")).c_str(), text(d.at("name")).c_str(),
                text(d.at("architecture")).c_str());
    for (const char* key : {"multiprocessors", "max_threads_per_block", "memory_bytes",
                            "shared_bytes_per_block", "driver_version", "runtime_version"})
      if (d.at(key) != 0) std::printf(", %s %s", key, text(d.at(key)).c_str());
    std::printf("\n");
    if (!d.contains("limits")) continue;
    std::printf("   ");
    for (const auto& [name, value] : d.at("limits").items())
      std::printf(" %s %s", name.c_str(), text(value).c_str());
    std::printf("\n");
  }
  std::printf("operators: %zu\n", operators().size());
  for (const OpInfo& op : operators()) {
    std::string has, lacks;
    for (const Json& d : j.at("devices")) {
      std::string& list = d.at("operators").at(op.name) == "absent" ? lacks : has;
      list += " " + text(d.at("device"));
    }
    std::printf("  %s shared on%s%s%s\n", op.name, has.c_str(), lacks.empty() ? "" : "; absent on",
                lacks.c_str());
  }
}

}  // namespace

void add_info(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("info", "What this build is and what it found on this machine");
  command->add_flag("--json", *json, "As JSON");
  command->callback([json] {
    const Json j = collect();
    if (*json)
      std::printf("%s\n", j.dump(1).c_str());
    else
      print(j);
  });
}

}  // namespace musaic::cli
