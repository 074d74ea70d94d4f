#include "cli/check/check.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/check/probes.h"
#include "cli/commands.h"
#include "cli/devices.h"
#include "musaic/version.h"

namespace musaic::cli {
namespace {

using checks::Case;
using checks::Outcome;

struct Options {
  std::vector<std::string> devices, ops;
  std::string only, json;
  std::uint64_t seed = 1;
  bool all = false, list = false, quick = false;
};

const char* word(Outcome::State s) {
  switch (s) {
    case Outcome::State::kPassed:
      return "passed";
    case Outcome::State::kFailed:
      return "failed";
    case Outcome::State::kLacksOperator:
      return "lacks operator";
    case Outcome::State::kLacksDtype:
      return "lacks dtype";
  }
  return "";
}

/// One line for an operator and dtype.
struct Line {
  int passed = 0, failed = 0, equal = 0;
  double worst = 0;
  std::string lacks;
};

void print(const Case& c, const Line& l, bool is_cpu) {
  if (!l.lacks.empty() && l.passed + l.failed == 0) {
    std::printf("  %-24s %-9s not run: %s\n", c.op.c_str(), to_string(c.dtype).c_str(), l.lacks.c_str());
    return;
  }
  std::printf("  %-24s %-9s %d of %d cases right, worst error %.2f of %s%s\n", c.op.c_str(),
              to_string(c.dtype).c_str(), l.passed, l.passed + l.failed, l.worst, c.tolerance.c_str(),
              is_cpu                           ? ""
              : l.equal == l.passed + l.failed ? "; bytes equal to the CPU's"
                                               : "; bytes differ from the CPU's");
}

void print_failure(const Options& o, const std::string& device, const std::string& name,
                   const std::string& text) {
  std::printf("  FAILED %s: %s\n    again: musaic check --device %s --seed %llu --case %s\n", name.c_str(),
              text.c_str(), device.c_str(), static_cast<unsigned long long>(o.seed), name.c_str());
}

nlohmann::json probe_device(const Options& o, const std::string& name,
                            const std::vector<checks::Probe>& probes, int& run, int& failed) {
  using State = checks::ProbeOutcome::State;
  nlohmann::json results = nlohmann::json::array();
  int held = 0, wrong = 0;
  std::string seen;
  const Device device = find_device(name);
  for (const checks::Probe& probe : probes) {
    const checks::ProbeOutcome r = checks::run_probe(probe, device, o.seed, checks::probe_kernels(device));
    results.push_back({{"case", probe.name},
                       {"fact", probe.fact},
                       {"state", r.state == State::kHolds    ? "passed"
                                 : r.state == State::kFailed ? "failed"
                                                             : "not run"},
                       {"text", r.text}});
    held += r.state == State::kHolds ? 1 : 0;
    wrong += r.state == State::kFailed ? 1 : 0;
    if (r.state == State::kFailed) print_failure(o, name, probe.name, probe.fact + ": " + r.text);
    if (r.state != State::kFailed && !r.text.empty() && (r.state == State::kHolds || probes.size() == 1))
      seen += "; " + r.text;
  }
  if (held + wrong > 0)
    std::printf("  probes: %d of %d facts hold%s\n", held, held + wrong, seen.c_str());
  else if (!probes.empty())
    std::printf("  probes: not run%s\n", seen.c_str());
  run += held + wrong;
  failed += wrong;
  return results;
}

nlohmann::json check_device(const Options& o, const std::string& name, const std::vector<Case>& cases,
                            const std::vector<checks::Probe>& probes, int& run, int& failed) {
  const Device device = find_device(name);
  const DeviceProperties p = device_properties(device);
  std::printf("%s: %s, %s\n", name.c_str(), p.name.c_str(), p.architecture.c_str());
  nlohmann::json facts = probe_device(o, name, probes, run, failed);
  nlohmann::json results = nlohmann::json::array();
  Line line;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const Outcome r = checks::run(c, device, o.seed);
    results.push_back({{"case", c.name()},
                       {"operator", c.op},
                       {"dtype", to_string(c.dtype)},
                       {"tier", c.tier == checks::Tier::kExact ? "exact" : "stable"},
                       {"state", word(r.state)},
                       {"error_share_of_tolerance", r.worst},
                       {"tolerance", c.tolerance},
                       {"bytes_equal_to_cpu", r.bytes_equal},
                       {"text", r.text}});
    if (r.state == Outcome::State::kPassed || r.state == Outcome::State::kFailed) {
      ++run;
      (r.state == Outcome::State::kPassed ? line.passed : line.failed) += 1;
      line.equal += r.bytes_equal ? 1 : 0;
      line.worst = std::max(line.worst, r.worst);
    } else {
      line.lacks = r.text;
    }
    if (r.state == Outcome::State::kFailed) {
      ++failed;
      print_failure(o, name, c.name(), r.text);
    }
    if (i + 1 == cases.size() || cases[i + 1].op != c.op || cases[i + 1].dtype != c.dtype) {
      print(c, line, device.type == DeviceType::kCpu);
      line = {};
    }
  }
  return {{"device", name},
          {"name", p.name},
          {"architecture", p.architecture},
          {"multiprocessors", p.multiprocessors},
          {"shared_bytes_per_block", p.shared_bytes_per_block},
          {"driver_version", p.driver_version},
          {"runtime_version", p.runtime_version},
          {"probes", std::move(facts)},
          {"cases", std::move(results)}};
}

int check_all(const Options& o) {
  std::vector<Case> cases;
  for (Case& c : checks::all_cases()) {
    const bool wanted = o.ops.empty() || std::find(o.ops.begin(), o.ops.end(), c.op) != o.ops.end();
    if (wanted && (o.only.empty() || o.only == c.name())) cases.push_back(std::move(c));
  }
  for (const std::string& op : o.ops) find_operator(op);
  if (o.quick) {
    // The last shape listed stands for the others.
    std::vector<Case> largest;
    for (Case& c : cases) {
      if (!largest.empty() && largest.back().op == c.op && largest.back().dtype == c.dtype)
        largest.pop_back();
      largest.push_back(std::move(c));
    }
    cases = std::move(largest);
  }
  std::vector<checks::Probe> probes;
  if (o.ops.empty())
    for (checks::Probe& probe : checks::all_probes())
      if (o.only.empty() || o.only == probe.name) probes.push_back(std::move(probe));
  if (!o.only.empty() && cases.empty() && probes.empty())
    throw Error("check", "--case", o.only, "a name that musaic check --list prints");
  if (o.list) {
    for (const checks::Probe& probe : probes) std::printf("%s: %s\n", probe.name.c_str(), probe.fact.c_str());
    for (const Case& c : cases) std::printf("%s\n", c.name().c_str());
    return 0;
  }
  const std::vector<std::string> devices = !o.devices.empty() ? o.devices
                                           : o.all            ? every_device()
                                                              : std::vector<std::string>{"cpu"};
  int run = 0, failed = 0;
  nlohmann::json report = {
      {"musaic", MUSAIC_VERSION}, {"seed", o.seed}, {"devices", nlohmann::json::array()}};
  for (const std::string& name : devices)
    report["devices"].push_back(check_device(o, name, cases, probes, run, failed));
  std::vector<std::string> unchecked;
  for (const OpInfo& op : operators())
    for (const std::string& folder : checks::folders_without_cases())
      if (folder == op.folder) unchecked.emplace_back(op.name);
  report["operators_without_cases"] = unchecked;
  if (!unchecked.empty() && o.ops.empty() && o.only.empty()) {
    std::printf("without cases yet, so not checked here:");
    for (const std::string& name : unchecked) std::printf(" %s", name.c_str());
    std::printf("\n");
  }
  std::printf("%d cases run, %d failed\n", run, failed);
  if (!o.json.empty()) {
    std::ofstream file(o.json);
    file << report.dump(1) << '\n';
    if (!file.flush()) throw Error("check", "--json", o.json, "a file that can be written");
  }
  if (run == 0) throw Error("check: no case was run: the chosen devices lack what was chosen");
  return failed == 0 ? 0 : 1;
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "check", "Compares every operator on a device with float64 and with the CPU's bytes");
  command
      ->add_option("--device", o->devices,
                   "A device by the name that musaic info prints (default: cpu); may be given again")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--all", o->all, "All devices of this machine and all simulated targets");
  command->add_option("--op", o->ops, "This operator alone; may be given again")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--case", o->only, "This case alone, by the name that a failure prints");
  command->add_option("--seed", o->seed, "Of the inputs")->capture_default_str();
  command->add_option("--json", o->json, "Writes every result to this file");
  command->add_flag("--quick", o->quick, "One shape of each operator and dtype");
  command->add_flag("--list", o->list, "Prints the cases' names and runs none");
  command->callback([o, &exit_code] { exit_code = check_all(*o); });
}

}  // namespace musaic::cli
