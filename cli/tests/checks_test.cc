// `musaic check` finds wrong results, wrong tolerances and missing operators, on cases planted here.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/check/check.h"

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

}  // namespace
}  // namespace musaic::checks
