// What every test shares: seeded inputs, guarded buffers, reference rounding, the targets.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "musaic/musaic.h"

namespace musaic::testing {

/// MUSAIC_SEED from the environment, else fresh; printed when the program starts and with every failure.
std::uint64_t seed();
/// One stream of numbers per test, seeded from seed() and the test's name.
std::mt19937_64& rng();
double uniform(double low, double high);
double normal();
std::int64_t uniform_int(std::int64_t low, std::int64_t high);  // both ends included

/// The exact value of a stored element, and the nearest-even rounding of a double into a dtype (float64
/// included).
double to_double(const void* element, DType dtype);
void from_double(void* element, DType dtype, double value);
double round_to(DType dtype, double value);
/// Unit roundoff of a floating dtype (half of the spacing at 1) and its smallest subnormal.
double epsilon(DType dtype);
double smallest(DType dtype);

/// A tensor in memory with 256 guard bytes on either side, filled with a pattern that reads as NaN in every
/// float. `offset_elements` shifts the base address off its 64-byte alignment; strides in elements (default
/// packed).
class Buffer {
 public:
  Buffer(DType dtype, std::vector<std::int64_t> shape, std::int64_t offset_elements = 0,
         std::vector<std::int64_t> strides = {});

  const Tensor& tensor() const { return tensor_; }
  operator const Tensor&() const { return tensor_; }
  std::int64_t numel() const { return tensor_.numel(); }

  /// Logical element i in row-major order.
  void* element(std::int64_t i);
  double get(std::int64_t i);
  void set(std::int64_t i, double value) { from_double(element(i), tensor_.dtype(), value); }
  Buffer& fill(const std::function<double(std::int64_t)>& value);
  Buffer& fill_normal(double scale = 1.0);
  /// Every byte of the memory, gaps between rows included: a NaN for floats, 0x7f7f... for integers.
  Buffer& poison();
  std::vector<double> values();
  /// Bytes of the logical elements in order.
  std::vector<unsigned char> bytes();
  /// Expects guards and the gaps between rows as poison() left them.
  void expect_guards_intact(const char* name);

 private:
  static constexpr std::size_t kGuard = 256;
  std::vector<unsigned char> memory_;
  std::vector<unsigned char> pattern_;
  std::vector<bool> owned_;  // bytes that belong to an element
  Tensor tensor_;
};

/// Names of the targets that this machine runs ("cpu:x86-64-v3", ...). Those it cannot run are printed once.
const std::vector<std::string>& targets();
/// Makes a target current for this process.
void use_target(const std::string& name);

/// Base class of tests that run once per target: TEST_P(Suite, Name) and MUSAIC_EVERY_TARGET(Suite).
class OnTarget : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { use_target(GetParam()); }
  void TearDown() override;
};
std::string target_test_name(const ::testing::TestParamInfo<std::string>& info);
#define MUSAIC_EVERY_TARGET(Suite)                                                            \
  INSTANTIATE_TEST_SUITE_P(Targets, Suite, ::testing::ValuesIn(::musaic::testing::targets()), \
                           ::musaic::testing::target_test_name)

/// Runs `f` on every target and with 1, 2 and 3 threads; expects the same bytes each time (the exact tier).
void expect_same_bytes_everywhere(const std::function<std::vector<unsigned char>()>& f);

/// |actual - expected| <= tolerance[i], NaN equal to NaN, infinities equal; prints the worst element.
void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                  const std::function<double(std::int64_t)>& tolerance, const std::string& what);

/// Expects an Error whose text holds each of the parts.
void expect_error(const std::function<void()>& f, const std::vector<std::string>& parts);

inline constexpr DType kFloatTypes[] = {kFloat32, kFloat16, kBFloat16};

}  // namespace musaic::testing
