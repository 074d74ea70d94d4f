// Tests that run once per target, plant a bug and look at the finding.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "backends/simt/kernel.h"
#include "backends/simt/memory.h"
#include "backends/simt/options.h"
#include "backends/simt/order_check.h"
#include "backends/simt/report.h"
#include "backends/simt/stream.h"
#include "musaic/error.h"

namespace musaic::simt::testing {

/// The number of the only line of a source file that holds a marker in a comment: `// PLANT(name)`.
inline int line_of(const char* file, const std::string& name) {
  const std::string path(file);
  std::ifstream in(MUSAIC_SIMT_TESTS + path.substr(path.find_last_of('/') + 1));
  std::string line;
  for (int number = 1; std::getline(in, line); ++number)
    if (line.find("// PLANT(" + name + ")") != std::string::npos) return number;
  ADD_FAILURE() << "no marker " << name << " in " << file;
  return -1;
}

/// Device memory as an array that the host fills and reads by copies.
template <class T>
class Array {
 public:
  explicit Array(std::int64_t n) : Array(Device{0}, n) {}
  struct Device {
    int number;
  };
  Array(Device device, std::int64_t n)
      : data_(static_cast<T*>(allocate(n * static_cast<std::int64_t>(sizeof(T)), device.number))), size_(n) {}
  Array(std::int64_t n, T value, int device = 0) : Array(Device{device}, n) {
    set(std::vector<T>(static_cast<std::size_t>(n), value));
  }
  explicit Array(const std::vector<T>& values, int device = 0)
      : Array(Device{device}, static_cast<std::int64_t>(values.size())) {
    set(values);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { release(data_); }
  operator T*() const { return data_; }
  T* data() const { return data_; }
  void set(const std::vector<T>& v) {
    copy_to_device(data_, v.data(), static_cast<std::int64_t>(v.size() * sizeof(T)));
  }
  /// Waits for all work.
  std::vector<T> get() const {
    synchronize();
    std::vector<T> v(static_cast<std::size_t>(size_));
    copy_from_device(v.data(), data_, size_ * static_cast<std::int64_t>(sizeof(T)));
    return v;
  }

 private:
  T* data_;
  std::int64_t size_;
};

inline std::string all_text(const std::vector<Report>& reports) {
  std::string s;
  for (const Report& r : reports) s += r.text() + "\n";
  return s;
}

inline void expect_silence() {
  const auto reports = take_reports();
  EXPECT_TRUE(reports.empty()) << all_text(reports);
}

/// The first report of a kind; a test failure, and an empty report, if there is none.
inline Report expect_finding(Finding finding, const std::string& kernel, int line) {
  const auto reports = take_reports();
  for (const Report& r : reports)
    if (r.finding == finding) {
      EXPECT_NE(r.kernel.find(kernel), std::string::npos) << r.text();
      if (line > 0) {
        EXPECT_EQ(r.line, line) << r.text();
      }
      EXPECT_EQ(r.target, current_target().name);
      return r;
    }
  ADD_FAILURE() << "no finding " << name(finding) << " among:\n" << all_text(reports);
  return {};
}
inline void PrintTo(const Index3& i, std::ostream* out) { *out << i.x << ' ' << i.y << ' ' << i.z; }
inline void expect_at(const Report& r, Index3 block, Index3 thread) {
  EXPECT_EQ(r.block, block) << r.text();
  EXPECT_EQ(r.thread, thread) << r.text();
}

inline std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const DeviceRecord* t = targets(); t->name != nullptr; ++t) names.push_back(t->name);
  return names;
}

class OnEveryTarget : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    use_target(GetParam().c_str());
    take_reports();
  }
  void TearDown() override {
    expect_silence();
    set_options(options_from_environment());
  }
};
inline std::string target_test_name(const ::testing::TestParamInfo<std::string>& of) {
  std::string s = of.param.substr(5);
  for (char& c : s)
    if (c == '-') c = '_';
  return s;
}
#define MUSAIC_SIMT_EVERY_TARGET(Suite)                                                                  \
  INSTANTIATE_TEST_SUITE_P(Targets, Suite, ::testing::ValuesIn(::musaic::simt::testing::target_names()), \
                           ::musaic::simt::testing::target_test_name)

}  // namespace musaic::simt::testing
