// `musaic check` finds wrong results, wrong tolerances and missing operators, on cases planted here.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/check/check.h"
#include "cli/check/probes.h"

namespace musaic::checks {
namespace {

/// argmax of rows whose largest entry is at `at`, expected at `expected`.
Case planted(std::int64_t at, double expected, double tolerance) {
  return {"argmax", "planted", kFloat32, Tier::kExact, "", [=](Call& call) {
            const int out = call.output(kInt64, {2});
            call.input(kFloat32, {2, 9}, [=](std::int64_t i) { return i % 9 == at ? 2.0 : -1.0; });
            return std::vector<Expected>{{out, {expected, expected}, {tolerance, tolerance}}};
          }};
}

TEST(Checks, RightAndWrongResults) {
  EXPECT_EQ(run(planted(4, 4, 0), Device{}, 1).state, Outcome::State::kPassed);
  const Outcome wrong = run(planted(4, 5, 0), Device{}, 1);
  EXPECT_EQ(wrong.state, Outcome::State::kFailed);
  EXPECT_NE(wrong.text.find("argument 0, element 0: 4, expected 5"), std::string::npos) << wrong.text;
  EXPECT_EQ(run(planted(4, 5, 0.5), Device{}, 1).state, Outcome::State::kFailed);
  EXPECT_EQ(run(planted(4, 5, 1), Device{}, 1).state, Outcome::State::kPassed);
  EXPECT_EQ(run(planted(4, std::nan(""), 9), Device{}, 1).state, Outcome::State::kFailed);
}

TEST(Checks, ErrorsOfTheCallAreFailures) {
  Case c = planted(4, 4, 0);
  c.make = [](Call& call) {
    call.output(kInt64, {3});  // two rows
    call.normal(kFloat32, {2, 9});
    return std::vector<Expected>{};
  };
  const Outcome o = run(c, Device{}, 1);
  EXPECT_EQ(o.state, Outcome::State::kFailed);
  EXPECT_NE(o.text.find("argmax: out"), std::string::npos) << o.text;
}

TEST(Checks, SomeElementsWithoutExpectation) {
  Case c = planted(4, 4, 0);
  c.make = [](Call& call) {
    const int out = call.output(kInt64, {2});
    call.normal(kFloat32, {2, 9});
    return std::vector<Expected>{{out, {0}, {9}}};
  };
  EXPECT_EQ(run(c, Device{}, 1).state, Outcome::State::kFailed);
}

TEST(Checks, NamesAreUniqueAndKnown) {
  std::vector<std::string> names;
  for (const Case& c : all_cases()) {
    EXPECT_NO_THROW(find_operator(c.op)) << c.op;
    for (const std::string& other : names) EXPECT_NE(other, c.name());
    names.push_back(c.name());
  }
  EXPECT_GT(names.size(), 100u);
}

using State = ProbeOutcome::State;

TEST(Probes, HoldOnTheCpu) {
  for (const Probe& probe : all_probes()) {
    const ProbeOutcome o = run_probe(probe, Device{}, 1, probe_kernels(Device{}));
    EXPECT_NE(o.state, State::kFailed) << probe.name << ": " << o.text;
  }
}

/// Kernels that compute something near what was asked for.
void wrong_rows(const RowProbeArgs& a, Stream stream) {
  RowProbeArgs b = a;
  switch (a.probe) {
    case RowProbe::kFma:
      b.probe = RowProbe::kProductAndSum;
      break;
    case RowProbe::kProductAndSum:
      b.probe = RowProbe::kFma;
      break;
    case RowProbe::kWidenHalf:
      b.probe = RowProbe::kWidenBFloat16;
      break;
    case RowProbe::kWidenBFloat16:
      b.probe = RowProbe::kWidenHalf;
      break;
    case RowProbe::kNarrowHalf:
    case RowProbe::kNarrowBFloat16:
      return;
    default:
      b.probe = RowProbe::kFma;  // c holds what b does
  }
  probe_kernels(Device{}).rows(b, stream);
}

TEST(Probes, FailWhereTheArithmeticIsAnother) {
  for (const Probe& probe : all_probes()) {
    const ProbeOutcome o = run_probe(probe, Device{}, 1, {wrong_rows, nullptr});
    EXPECT_NE(o.state, State::kHolds) << probe.name;
    EXPECT_FALSE(o.text.empty()) << probe.name;
  }
}

#if defined(MUSAIC_HAS_SIMT)
TEST(Probes, FailWhereKernelsDoNothing) {
  const Device device = find_device("simt:musa-mp22");
  int failed = 0;
  for (const Probe& probe : all_probes()) {
    const ProbeOutcome held = run_probe(probe, device, 1, probe_kernels(device));
    EXPECT_EQ(held.state, State::kHolds) << probe.name << ": " << held.text;
    const ProbeOutcome o =
        run_probe(probe, device, 1, {[](const RowProbeArgs&, Stream) {}, [](const GpuProbeArgs&, Stream) {}});
    EXPECT_EQ(o.state, State::kFailed) << probe.name;
    failed += o.state == State::kFailed ? 1 : 0;
  }
  EXPECT_GE(failed, 16);
}
#endif

}  // namespace
}  // namespace musaic::checks
