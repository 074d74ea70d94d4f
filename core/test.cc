#include <dlpack/dlpack.h>

#include <atomic>
#include <cstddef>
#include <thread>

#include "backends/cpu/pool.h"
#include "musaic/c_api.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

TEST(Tensor, HasDlpacksLayout) {
  static_assert(sizeof(TensorLayout) == sizeof(DLTensor));
  static_assert(offsetof(TensorLayout, device) == offsetof(DLTensor, device));
  static_assert(offsetof(TensorLayout, ndim) == offsetof(DLTensor, ndim));
  static_assert(offsetof(TensorLayout, dtype) == offsetof(DLTensor, dtype));
  static_assert(offsetof(TensorLayout, shape) == offsetof(DLTensor, shape));
  static_assert(offsetof(TensorLayout, strides) == offsetof(DLTensor, strides));
  static_assert(offsetof(TensorLayout, byte_offset) == offsetof(DLTensor, byte_offset));
  static_assert(kFloat32.code == kDLFloat && kInt32.code == kDLInt && kUInt8.code == kDLUInt &&
                kBFloat16.code == kDLBfloat);
  static_assert(
      static_cast<int>(DeviceType::kCpu) == kDLCPU && static_cast<int>(DeviceType::kCuda) == kDLCUDA &&
      static_cast<int>(DeviceType::kRocm) == kDLROCM && static_cast<int>(DeviceType::kMusa) == kDLExtDev);
  float data[6];
  const Tensor t(data, kFloat32, {2, 3});
  const Tensor copy = t;  // NOLINT(performance-unnecessary-copy-initialization): what is tested
  const auto* dl = reinterpret_cast<const DLTensor*>(&copy);
  EXPECT_EQ(dl->data, data);
  EXPECT_EQ(dl->ndim, 2);
  EXPECT_EQ(dl->shape[1], 3);
  EXPECT_EQ(dl->strides[0], 3);
  EXPECT_NE(dl->shape, t.layout().shape) << "a copy points into itself";
}

TEST(Tensor, ViewsAndErrors) {
  float data[24];
  const Tensor t(data, kFloat32, {2, 3, 4});
  EXPECT_EQ(t[1].slice(0, 1, 3).data_as<float>(), data + 16);
  EXPECT_TRUE(t.is_contiguous());
  EXPECT_FALSE(t.slice(1, 0, 2).is_contiguous());
  EXPECT_EQ(t.view({6, 4}).size(0), 6);
  expect_error([&] { t.view({5, 5}); }, {"view"});
  expect_error([&] { t.slice(1, 2, 5); }, {"slice"});
  expect_error([&] { t[2]; }, {"index"});
  expect_error([&] { Tensor(data, kFloat32, {-1}); }, {"negative"});
  expect_error([&] { Tensor(data, kFloat32, {std::int64_t{1} << 40, std::int64_t{1} << 40}); }, {"2^63"});
}

TEST(Pool, SplitsInOrderAndCoversAll) {
  for (int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    for (std::int64_t n : {0, 1, 2, 5, 64, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(n));
      auto body = [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
      };
      cpu::parallel(n, 1, body);
      for (const auto& s : seen) EXPECT_EQ(s, 1);
    }
  }
  set_num_threads(0);
}

TEST(Pool, ManyCallersAndNestedCalls) {
  set_num_threads(3);
  std::vector<std::thread> callers;
  std::atomic<std::int64_t> total{0};
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        auto outer = [&](std::int64_t begin, std::int64_t end) {
          auto inner = [&](std::int64_t b, std::int64_t e) { total += e - b; };
          for (std::int64_t i = begin; i < end; ++i) cpu::parallel(3, 1, inner);
        };
        cpu::parallel(10, 1, outer);
      }
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(total, 4 * 200 * 30);
  set_num_threads(0);
}

/// Kinds of a schema's arguments, read from its text.
std::vector<Value::Kind> kinds_of(const std::string& schema) {
  std::vector<Value::Kind> kinds;
  std::string inside = schema.substr(schema.find('(') + 1);
  inside = inside.substr(0, inside.find(") ->"));
  for (std::size_t at = 0; at < inside.size();) {
    const std::size_t comma = std::min(inside.find(", ", at), inside.size());
    const std::string argument = inside.substr(at, comma - at), type = argument.substr(0, argument.find(' '));
    if (type.rfind("Tensor", 0) == 0)
      kinds.push_back(Value::Kind::kTensor);
    else if (type == "int")
      kinds.push_back(Value::Kind::kInt);
    else if (type == "float")
      kinds.push_back(Value::Kind::kFloat);
    else if (type == "bool")
      kinds.push_back(Value::Kind::kBoolean);
    else
      ADD_FAILURE() << schema << ": argument type " << type;
    at = comma + 2;
  }
  return kinds;
}

TEST(Registry, SchemasAgreeWithTheDeclarations) {
  for (const OpInfo& op : operators()) {
    const std::string schema = op.schema;
    EXPECT_EQ(schema.rfind(std::string(op.name) + "(", 0), 0u) << schema;
    EXPECT_EQ(kinds_of(schema), op.parameters) << schema;
    // An argument, or what the addresses in one lead to.
    EXPECT_TRUE(schema.find("Tensor!") != std::string::npos || schema.find("dst_") != std::string::npos)
        << schema << ": an operator writes something";
  }
  expect_error([] { find_operator("nonsense"); }, {"nonsense", "rmsnorm"});
}

TEST(CApi, CallsByNameAndReportsErrors) {
  Buffer in(kFloat32, {2, 16}), w(kFloat32, {16}), out(kFloat32, {2, 16}), expected(kFloat32, {2, 16});
  in.fill_normal();
  w.fill_normal();
  rmsnorm(expected, in, w, 1e-5);
  MusaicValue args[4];
  args[0].kind = args[1].kind = args[2].kind = MUSAIC_TENSOR;
  args[0].as.tensor = &out.tensor().layout();
  args[1].as.tensor = &in.tensor().layout();
  args[2].as.tensor = &w.tensor().layout();
  args[3].kind = MUSAIC_FLOAT;
  args[3].as.number = 1e-5;
  char error[64];
  ASSERT_EQ(musaic_call("rmsnorm", args, 4, nullptr, nullptr, 0, error, sizeof error), 0) << error;
  EXPECT_EQ(out.bytes(), expected.bytes());
  EXPECT_EQ(musaic_call("rmsnorm", args, 3, nullptr, nullptr, 0, error, sizeof error), 1);
  EXPECT_STREQ(error, "rmsnorm: arguments: 3, expected 4");
  EXPECT_EQ(musaic_call("no_such", args, 4, nullptr, nullptr, 0, error, 8), 1);
  EXPECT_EQ(std::string(error).size(), 7u) << "cut to fit";
  args[3].kind = MUSAIC_INT;
  EXPECT_EQ(musaic_call("rmsnorm", args, 4, nullptr, nullptr, 0, error, sizeof error), 1);
  EXPECT_STREQ(musaic_operator_name(0), operators()[0].name);
  EXPECT_EQ(musaic_operator_name(-1), nullptr);
  EXPECT_EQ(musaic_check(1, 0, nullptr, error, sizeof error), 0);
}

TEST(CpuPath, UnknownNameIsAnError) {
  expect_error([] { use_target("cpu:avx9000"); }, {"MUSAIC_CPU", "avx9000", "one of "});
}

}  // namespace
}  // namespace musaic::testing
