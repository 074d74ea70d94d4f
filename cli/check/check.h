// What `musaic check` runs: small calls of every operator with the result that the formula gives in float64. An
// operator's cases stand in ops/FOLDER/check.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "musaic/musaic.h"
#include "musaic/registry.h"
#include "testing/number.h"

namespace musaic::checks {

using testing::epsilon;
using testing::smallest;

inline constexpr DType kFloatTypes[] = {kFloat32, kFloat16, kBFloat16};
using Shape = std::vector<std::int64_t>;

/// Arguments of one call in host memory, in the order of the operator's declaration, and its random numbers. Each
/// function that adds an argument returns its number.
class Call {
 public:
  explicit Call(std::uint64_t seed, Device device = {}) : generator_(seed), device_(device) {}
  /// Where the call is to run: some operators want more workspace on some devices.
  Device device() const { return device_; }

  /// Written by the operator; holds NaNs (0x7f bytes) before.
  int output(DType dtype, const Shape& shape);
  /// Element i in row-major order is value(i) rounded to the dtype.
  int input(DType dtype, const Shape& shape, const std::function<double(std::int64_t)>& value);
  int normal(DType dtype, const Shape& shape, double scale = 1);
  /// As input, the first 65,536 values over and over: for large tensors whose contents do not matter.
  int pattern(DType dtype, const Shape& shape, const std::function<double(std::int64_t)>& value);
  /// As pattern, read and written.
  int updated_pattern(DType dtype, const Shape& shape, const std::function<double(std::int64_t)>& value);
  /// As normal, read and written.
  int updated(DType dtype, const Shape& shape, double scale = 1);
  int no_tensor();
  int scalar(Value value);
  void set_workspace(std::int64_t bytes) { workspace_bytes_ = bytes; }

  /// Values for pattern(): normal numbers of spread 3, and small codes of quantised weights.
  std::function<double(std::int64_t)> any() {
    return [this](std::int64_t) { return 3 * normal(); };
  }
  static std::function<double(std::int64_t)> codes() {
    return [](std::int64_t i) { return static_cast<double>(i * 37 % 64); };
  }

  double normal();
  double uniform(double low, double high);
  std::int64_t uniform_int(std::int64_t low, std::int64_t high);  // both ends included

  /// What an argument holds before the call.
  std::vector<double> values(int argument) const;
  /// The same, row by row.
  std::vector<std::vector<double>> rows(int argument, std::int64_t row_size) const;

  struct Argument {
    Value scalar;
    DType dtype = kFloat32;
    Shape shape;
    std::vector<unsigned char> bytes;
    bool is_tensor = false, is_read = false, is_written = false;
  };
  const std::vector<Argument>& arguments() const { return arguments_; }
  std::int64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  int add(DType dtype, const Shape& shape, bool is_read, bool is_written);

  std::vector<Argument> arguments_;
  std::int64_t workspace_bytes_ = 0;
  std::mt19937_64 generator_;
  Device device_;
};

/// What an argument has to hold after the call: each element within its tolerance. NaN stands for NaN.
struct Expected {
  int argument;
  std::vector<double> values, tolerance;
};

/// Design law 1: exact results have the CPU's bytes on every device; stable ones are within the tolerance.
enum class Tier { kExact, kStable };

struct Case {
  std::string op, shape;
  DType dtype;
  Tier tier;
  std::string tolerance;  // the derived bound, as a person reads it
  std::function<std::vector<Expected>(Call&)> make;

  std::string name() const { return op + "/" + to_string(dtype) + "/" + shape; }
};

/// The tolerance of exact copies and of integers.
inline std::vector<double> no_tolerance(const std::vector<double>& values) {
  return std::vector<double>(values.size(), 0.0);
}

/// A call to be timed by `musaic bench`, as models make it. An operator's calls stand in ops/FOLDER/timing.cc, each with the
/// smallest shape first; folders without that file are timed by their cases.
struct Timing {
  std::string op, shape;
  DType dtype;
  std::function<void(Call&)> make;
  std::int64_t bytes = 0;  // that the call has to read and write; 0: all of its tensors, updated ones twice
};
std::vector<Timing> all_timings();
/// "512x4096".
std::string to_text(const Shape& shape);
/// A tensor without memory, for functions that look at shapes alone.
inline Tensor shape_only(DType dtype, const Shape& shape) {
  return {nullptr, dtype, shape.data(), nullptr, static_cast<int>(shape.size()), Device{}};
}

/// The cases of all operators, in the list's order; the folders that have none.
std::vector<Case> all_cases();
std::vector<std::string> folders_without_cases();

/// How a case went on a device.
struct Outcome {
  enum class State { kPassed, kFailed, kLacksOperator, kLacksDtype };
  State state = State::kPassed;
  double worst = 0;         // largest error as a share of the tolerance
  bool bytes_equal = true;  // to the CPU's
  std::string text;         // why it failed or was left out
};

/// Runs a case on a device and compares it with float64 and with the CPU. The seed and the case's name choose the
/// inputs.
Outcome run(const Case& c, Device device, std::uint64_t seed);

}  // namespace musaic::checks
