// What every test shares: seeded inputs, guarded buffers, reference rounding, the targets.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "musaic/musaic.h"
#include "testing/number.h"

namespace musaic::testing {

/// MUSAIC_SEED from the environment, else fresh; printed when the program starts and with every failure.
std::uint64_t seed();
/// One stream of numbers per test, seeded from seed() and the test's name.
std::mt19937_64& rng();
double uniform(double low, double high);
double normal();
std::int64_t uniform_int(std::int64_t low, std::int64_t high);  // both ends included

/// A tensor in memory with 256 guard bytes on either side, filled with a pattern that reads as NaN in every
/// float. `offset_elements` shifts the base address off its 64-byte alignment; strides in elements (default
/// packed).
///
/// tensor() lies on the device of the current target: the buffer copies itself there and back as the test goes
/// on. On a simulated device, elements that the test never set count as unwritten, and the allocation ends
/// where the tensor does.
class Buffer {
 public:
  Buffer(DType dtype, std::vector<std::int64_t> shape, std::int64_t offset_elements = 0,
         std::vector<std::int64_t> strides = {});

  /// For an operator that may read and write it.
  const Tensor& tensor() const;
  operator const Tensor&() const { return tensor(); }
  /// Another view of the same memory, from an element of it on.
  Tensor view(std::int64_t first_element, std::vector<std::int64_t> shape,
              std::vector<std::int64_t> strides = {}) const;
  std::int64_t numel() const { return host_.numel(); }

  /// Logical element i in row-major order, in host memory, until the next tensor(); to be written by the caller.
  void* element(std::int64_t i);
  double get(std::int64_t i) const;
  void set(std::int64_t i, double value) { from_double(element(i), host_.dtype(), value); }
  /// The first bytes of a packed buffer.
  Buffer& set_bytes(const std::vector<unsigned char>& bytes);
  Buffer& fill(const std::function<double(std::int64_t)>& value);
  Buffer& fill_normal(double scale = 1.0);
  /// Every byte of the memory, gaps between rows included: a NaN for floats, 0x7f7f... for integers.
  Buffer& poison();
  std::vector<double> values() const;
  /// Bytes of the logical elements in order.
  std::vector<unsigned char> bytes() const;
  /// Expects guards and the gaps between rows as poison() left them.
  void expect_guards_intact(const char* name) const;

 private:
  static constexpr std::size_t kGuard = 256;
  const unsigned char* address(std::int64_t i) const;
  void push() const;
  void pull() const;

  mutable std::vector<unsigned char> memory_;
  std::vector<unsigned char> pattern_;
  std::vector<bool> owned_;            // bytes that belong to an element
  mutable std::vector<bool> written_;  // bytes that the test set, or an operator may have
  std::size_t start_ = 0, offset_ = 0, body_ = 0;
  Tensor host_;
  mutable Tensor on_device_;
  mutable std::shared_ptr<void> device_memory_;
  mutable bool device_is_newer_ = false, host_is_newer_ = true;
};

/// Names of the targets that this machine runs ("cpu:x86-64-v3", "simt:musa-mp31", "cuda:0", ...). Those it
/// cannot run are printed once. MUSAIC_TEST_TARGETS, a list with commas, names those to run alone, by their
/// beginnings.
const std::vector<std::string>& targets();
/// False in the test programs of operators without a form for GPUs, which run on the CPU alone.
bool has_gpu_form();
/// Makes a target current for this process.
void use_target(const std::string& name);
/// The device of the current target.
Device device();
/// True on a target where a test of many elements takes minutes.
bool is_slow();
/// `fast` or, on a slow target, `slow`: sizes of tests.
template <class T>
T scaled(T fast, T slow) {
  return is_slow() ? slow : fast;
}
/// Of kFloatTypes those that the current target has.
std::vector<DType> float_types();

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

/// Runs `f` on every target, on the CPU with 1, 2 and 3 threads; expects the same bytes each time (the exact tier).
void expect_same_bytes_everywhere(const std::function<std::vector<unsigned char>()>& f);

/// |actual - expected| <= tolerance[i], NaN equal to NaN, infinities equal; prints the worst element.
void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                  const std::function<double(std::int64_t)>& tolerance, const std::string& what);

/// Ends a test of a dtype that the target lacks, saying so.
#define MUSAIC_NEEDS(dtype)                                                                            \
  if (const std::string lacking_ = lacks_dtype(::musaic::testing::device(), dtype); !lacking_.empty()) \
  GTEST_SKIP() << "not run: " << lacking_

/// Expects an Error whose text holds each of the parts.
void expect_error(const std::function<void()>& f, const std::vector<std::string>& parts);

inline constexpr DType kFloatTypes[] = {kFloat32, kFloat16, kBFloat16};

}  // namespace musaic::testing
