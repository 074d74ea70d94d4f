#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>

#include "ops/ggml_dequantize/random_weights.h"
#include "ops/ggml_mul_mat/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

std::int64_t number(const GgmlLayout& layout) { return static_cast<std::int64_t>(layout.type); }

/// Scratch with guards and poison, as large as the operator asks.
class Scratch {
 public:
  Scratch(std::int64_t m, std::int64_t k) : buffer_(kUInt8, {ggml_mul_mat_a8_workspace_bytes(m, k)}) {}
  operator Workspace() const { return {buffer_.tensor().data(), buffer_.numel()}; }
  void expect_guards_intact() const { buffer_.expect_guards_intact("workspace"); }

 private:
  Buffer buffer_;
};

/// Weights at any address, whose last byte is on the CPU the last of a readable page, so that any read beyond
/// faults; devices are told where the memory ends.
class MappedWeights {
 public:
  MappedWeights(const GgmlLayout& layout, const std::vector<unsigned char>& bytes)
      : buffer_(kUInt8, {static_cast<std::int64_t>(bytes.size())}, is_plain(layout) ? 0 : uniform_int(0, 4)) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t whole = (bytes.size() + page - 1) / page * page;
    size_ = whole + page;
    base_ = static_cast<unsigned char*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(base_ + whole, page, PROT_NONE), 0);
    begin_ = base_ + whole - bytes.size();
    std::memcpy(begin_, bytes.data(), bytes.size());
    buffer_.set_bytes(bytes);
  }
  ~MappedWeights() { munmap(base_, size_); }
  MappedWeights(const MappedWeights&) = delete;
  MappedWeights& operator=(const MappedWeights&) = delete;
  Tensor tensor() const {
    if (device().type != DeviceType::kCpu) return buffer_.tensor();
    return Tensor(begin_, kUInt8, {buffer_.numel()});
  }

 private:
  Buffer buffer_;
  unsigned char* base_;
  unsigned char* begin_;
  std::size_t size_;
};

std::vector<double> row_values(Buffer& x, std::int64_t row) {
  const std::int64_t k = x.tensor().size(1);
  std::vector<double> v;
  for (std::int64_t i = 0; i < k; ++i) v.push_back(x.get(row * k + i));
  return v;
}

/// Bits and error bound of every element against the reference.
void expect_product(const GgmlLayout& layout, const std::vector<unsigned char>& weights, std::int64_t rows,
                    Buffer& x, Buffer& out) {
  const std::int64_t k = x.tensor().size(1), row_bytes = ggml_row_bytes(number(layout), k),
                     padded = ggml_blocks(layout, k) * layout.block_elements;
  const DType dtype = out.tensor().dtype();
  for (std::int64_t t = 0; t < x.tensor().size(0); ++t) {
    const std::vector<double> activations = row_values(x, t);
    const reference::A8Activations a =
        is_plain(layout) ? reference::A8Activations{} : reference::quantize_a8(activations, padded);
    for (std::int64_t r = 0; r < rows; ++r) {
      const unsigned char* row = weights.data() + r * row_bytes;
      float expected;
      if (is_plain(layout)) {
        std::vector<double> w;
        for (std::int64_t i = 0; i < k; ++i)
          w.push_back(reference::weight_element(layout.type, row + i * layout.block_bytes, 0).value());
        expected = reference::dot_plain(w, activations);
      } else {
        expected = reference::dot_a8(layout, row, a);
      }
      const double actual = out.get(t * rows + r);
      ASSERT_EQ(actual, round_to(dtype, static_cast<double>(expected)))
          << layout.name << " K = " << k << " rows = " << rows << " at token " << t << " row " << r;
      const reference::ExactDot exact = reference::exact_dot(layout, row, activations, a);
      const double rounding = std::fabs(exact.value) * epsilon(dtype) + smallest(dtype);
      ASSERT_LE(std::fabs(actual - exact.value), (exact.bound + rounding) * 1.01)
          << layout.name << " K = " << k << " at token " << t << " row " << r;
    }
  }
}

class GgmlMulMat : public OnTarget {};

TEST_P(GgmlMulMat, BitsAndErrorBound) {
  for (const GgmlLayout& layout : kGgmlLayouts)
    for (std::int64_t k : scaled<std::vector<std::int64_t>>(
             {32, 64, 96, 224, 256, 288, 352, 576, 768, 1120, 1280, 4096, 4128}, {32, 96, 288, 1120, 4128}))
      for (std::int64_t m : scaled<std::vector<std::int64_t>>({1, 2, 3, 7, 33}, {1, 3, 13})) {
        if ((m > 3 && k > 600) || (m == 2 && k > 2000) || (is_slow() && m > 1 && k > 300)) continue;
        const std::int64_t rows = uniform_int(1, m > 7 ? 5 : k > 1000 ? 10 : 19);
        const std::vector<DType> types = float_types();
        const auto any_type = [&] {
          return types[static_cast<std::size_t>(uniform_int(0, static_cast<std::int64_t>(types.size()) - 1))];
        };
        const DType x_dtype = any_type(), out_dtype = any_type();
        const std::vector<unsigned char> bytes =
            reference::random_weights(layout, rows * ggml_blocks(layout, k));
        const MappedWeights weights(layout, bytes);
        Buffer x(x_dtype, {m, k}, uniform_int(0, 3), {k + uniform_int(0, 5), 1}),
            out(out_dtype, {m, rows}, uniform_int(0, 3), {rows + uniform_int(0, 5), 1});
        x.poison();
        x.fill_normal(uniform(0.01, 3.0));
        out.poison();
        Scratch scratch(m, k);
        (m % 2 == 0 ? ggml_mul_mat_a8 : ggml_mul_mat_vec_a8)(out, weights.tensor(), x, number(layout), rows,
                                                             {}, scratch);
        expect_product(layout, bytes, rows, x, out);
        if (HasFatalFailure()) return;
        out.expect_guards_intact("out");
        scratch.expect_guards_intact();
      }
}

TEST_P(GgmlMulMat, ColumnsThatFillNoBlock) {
  for (const GgmlLayout& layout : kGgmlLayouts)
    for (std::int64_t k : {1, 7, 31, 33, 200, 257, 570}) {
      const std::int64_t rows = 5, m = 2;
      const std::vector<unsigned char> bytes =
          reference::random_weights(layout, rows * ggml_blocks(layout, k));
      const MappedWeights weights(layout, bytes);
      Buffer x(kFloat32, {m, k}), out(kFloat32, {m, rows});
      x.fill_normal();
      Scratch scratch(m, k);
      ggml_mul_mat_a8(out, weights.tensor(), x, number(layout), rows, {}, scratch);
      expect_product(layout, bytes, rows, x, out);
      if (HasFatalFailure()) return;
      scratch.expect_guards_intact();
    }
}

// The largest integers of each format: no partial sum may saturate.
TEST_P(GgmlMulMat, ExtremeCodes) {
  for (const GgmlLayout& layout : kGgmlLayouts) {
    if (is_plain(layout)) continue;
    for (int fill : {0x00, 0x7f, 0x80, 0xff}) {
      const std::int64_t k = 512, rows = 9;
      std::vector<unsigned char> bytes = reference::random_weights(layout, rows * ggml_blocks(layout, k));
      for (std::size_t b = 0; b < bytes.size(); b += static_cast<std::size_t>(layout.block_bytes)) {
        const bool six = layout.type == GgmlType::kQ6_K;
        const std::size_t from = six ? 0 : 4,
                          to = static_cast<std::size_t>(layout.block_bytes) - (six ? 2 : 0);
        for (std::size_t i = from; i < to; ++i) bytes[b + i] = static_cast<unsigned char>(fill);
      }
      const MappedWeights weights(layout, bytes);
      Buffer x(kFloat32, {4, k}), out(kFloat32, {4, rows});
      x.fill([&](std::int64_t i) {
        return i / k == 0   ? 1.0
               : i / k == 1 ? -1.0
               : i / k == 2 ? 1.0 - 2.0 * static_cast<double>(i % 2)
                            : 0.0;
      });
      Scratch scratch(4, k);
      ggml_mul_mat_a8(out, weights.tensor(), x, number(layout), rows, {}, scratch);
      expect_product(layout, bytes, rows, x, out);
      if (HasFatalFailure()) return;
    }
  }
}

// ggml-org/llama.cpp#2144: rows that are no multiple of the kernel's step read what lies behind them.
TEST_P(GgmlMulMat, RowLengthsOffTheStep) {
  struct Case {
    GgmlType type;
    std::int64_t k;
  };
  for (const Case c : {Case{GgmlType::kQ4_0, 3200}, Case{GgmlType::kQ8_0, 10944}, Case{GgmlType::kQ8_0, 32},
                       Case{GgmlType::kQ8_0, 96}, Case{GgmlType::kQ4_K, 256}, Case{GgmlType::kQ4_K, 768},
                       Case{GgmlType::kQ6_K, 256}, Case{GgmlType::kQ6_K, 768}}) {
    const GgmlLayout& layout = checked_ggml_layout("test", static_cast<std::int64_t>(c.type));
    const std::int64_t rows = 5, row_bytes = ggml_row_bytes(number(layout), c.k);
    const std::vector<unsigned char> bytes =
        reference::random_weights(layout, rows * ggml_blocks(layout, c.k));
    // The guard bytes behind the weights read as NaN scales.
    Buffer w(kUInt8, {rows, row_bytes}, 1), x(kFloat32, {1, c.k}), out(kFloat32, {1, rows});
    w.set_bytes(bytes);
    x.fill([](std::int64_t i) { return i % 32 == 0 ? 127.0 : static_cast<double>(37 * i % 255 - 127); });
    Scratch scratch(1, c.k);
    ggml_mul_mat_vec_a8(out, w, x, number(layout), rows, {}, scratch);
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < c.k; ++i) {
        const double v =
            reference::weight_element(
                layout.type, bytes.data() + r * row_bytes + i / layout.block_elements * layout.block_bytes,
                static_cast<int>(i % layout.block_elements))
                .value() *
            x.get(i);
        sum += v;
        magnitude += std::fabs(v);
      }
      EXPECT_LE(std::fabs(out.get(r) - sum), 1e-6 * magnitude) << layout.name << " " << c.k;
    }
    expect_product(layout, bytes, rows, x, out);
  }
}

TEST_P(GgmlMulMat, BadRowsStayAlone) {
  for (const GgmlLayout& layout : kGgmlLayouts)
    for (double bad : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
      const std::int64_t k = 576, rows = 9, m = 9;
      const std::vector<unsigned char> bytes =
          reference::random_weights(layout, rows * ggml_blocks(layout, k));
      const MappedWeights weights(layout, bytes);
      Buffer x(kFloat16, {m, k}), good(kFloat32, {m, rows}), out(kFloat32, {m, rows});
      x.fill_normal();
      Scratch scratch(m, k);
      ggml_mul_mat_a8(good, weights.tensor(), x, number(layout), rows, {}, scratch);
      x.set(3 * k + 567, bad);
      ggml_mul_mat_a8(out, weights.tensor(), x, number(layout), rows, {}, scratch);
      for (std::int64_t i = 0; i < m * rows; ++i) {
        if (i / rows != 3) {
          ASSERT_EQ(out.get(i), good.get(i));
        } else if (!is_plain(layout)) {
          std::uint32_t bits;
          std::memcpy(&bits, out.element(i), 4);
          ASSERT_EQ(bits, 0x7fc00000u) << layout.name;
        } else {
          ASSERT_FALSE(std::isfinite(out.get(i)));
        }
      }
    }
}

TEST_P(GgmlMulMat, TinyHugeAndZeroActivations) {
  for (const GgmlLayout& layout : kGgmlLayouts) {
    const std::int64_t k = 256, rows = 3;
    const std::vector<unsigned char> bytes = reference::random_weights(layout, rows * ggml_blocks(layout, k));
    const MappedWeights weights(layout, bytes);
    Buffer x(kFloat32, {5, k}), out(kFloat32, {5, rows});
    const double scale[] = {0.0, 0x1p-140, 0x1p-100, 0x1p-60, 0x1p90};
    x.fill([&](std::int64_t i) { return scale[i / k] * static_cast<double>(i % 5 - 2); });
    Scratch scratch(5, k);
    ggml_mul_mat_a8(out, weights.tensor(), x, number(layout), rows, {}, scratch);
    for (std::int64_t t = 0; t < 5; ++t)
      for (std::int64_t r = 0; r < rows; ++r) {
        double bound = 0;
        for (std::int64_t i = 0; i < k; ++i) bound += std::fabs(x.get(t * k + i)) * 1e3;
        EXPECT_LE(std::fabs(out.get(t * rows + r)), bound + 0x1p-140);
      }
  }
}

TEST_P(GgmlMulMat, EmptySizes) {
  Buffer none(kUInt8, {0}), no_x(kFloat32, {0, 64}), no_out(kFloat32, {0, 3}), w(kUInt8, {3, 36});
  EXPECT_NO_THROW(ggml_mul_mat_a8(no_out, w, no_x, 2, 3));
  Buffer x(kFloat32, {2, 64}), no_rows(kFloat32, {2, 0});
  x.fill_normal();
  Scratch scratch(2, 64);
  EXPECT_NO_THROW(ggml_mul_mat_a8(no_rows, none, x, 2, 0, {}, scratch));
  for (const GgmlLayout& layout : kGgmlLayouts) {
    Buffer thin(kFloat32, {2, 0}), out(kFloat16, {2, 3});
    ggml_mul_mat_a8(out, none, thin, number(layout), 3);
    EXPECT_EQ(out.values(), std::vector<double>(6, 0.0));
  }
}

MUSAIC_EVERY_TARGET(GgmlMulMat);

TEST(GgmlMulMatBits, SameEverywhereAndPerRow) {
  for (const GgmlLayout& layout : kGgmlLayouts)
    for (std::int64_t k : {160, 1536, 8448}) {
      if (k > 8000 && layout.type != GgmlType::kQ4_1 && layout.type != GgmlType::kF16) continue;
      const std::int64_t m = k == 160 ? 33 : 13, rows = k == 160 ? 37 : 5;
      const std::vector<unsigned char> bytes =
          reference::random_weights(layout, rows * ggml_blocks(layout, k));
      const MappedWeights weights(layout, bytes);
      Buffer x(kFloat32, {m, k});
      x.fill_normal();
      Scratch scratch(m, k);
      std::vector<unsigned char> batch;
      expect_same_bytes_everywhere([&] {
        Buffer out(kFloat32, {m, rows});
        ggml_mul_mat_a8(out, weights.tensor(), x, number(layout), rows, {}, scratch);
        return batch = out.bytes();
      });
      for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{m - 1, m}, {5, 7}, {0, 7}}) {
        Buffer some(kFloat32, {end - begin, rows});
        ggml_mul_mat_vec_a8(some, weights.tensor(), x.tensor().slice(0, begin, end), number(layout), rows, {},
                            scratch);
        const std::vector<unsigned char> alone = some.bytes();
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), batch.begin() + begin * rows * 4)) << layout.name;
      }
      // A row of the weight gives the same wherever it lies.
      Buffer last(kFloat32, {m, 1});
      const std::int64_t row_bytes = ggml_row_bytes(number(layout), k);
      ggml_mul_mat_a8(last, weights.tensor().slice(0, (rows - 1) * row_bytes, rows * row_bytes), x,
                      number(layout), 1, {}, scratch);
      for (std::int64_t t = 0; t < m; ++t)
        EXPECT_EQ(std::memcmp(last.element(t), batch.data() + (t * rows + rows - 1) * 4, 4), 0)
            << layout.name;
    }
}

TEST(GgmlMulMatErrors, NameTheArgument) {
  Buffer w(kUInt8, {3, 36}), x(kFloat32, {2, 64}), out(kFloat32, {2, 3}), ints(kInt32, {2, 64}),
      wide(kFloat32, {2, 4});
  x.fill_normal();
  Scratch scratch(2, 64);
  const auto run = [&](const Tensor& o, const Tensor& weight, const Tensor& in, std::int64_t type,
                       std::int64_t row,
                       Workspace s) { return [=] { ggml_mul_mat_a8(o, weight, in, type, row, {}, s); }; };
  EXPECT_NO_THROW(run(out, w, x, 2, 3, scratch)());
  expect_error(run(out, w, x, 3, 3, scratch),
               {"ggml_mul_mat_a8: weight: 108 bytes", "120 bytes", "K=64", "Q4_1"});
  expect_error(run(out, w, x, 2, 4, scratch), {"out: shape [2, 3]", "row=4"});
  expect_error(run(wide, w, x, 2, 4, scratch), {"weight: 108 bytes", "144 bytes (row=4"});
  expect_error(run(out, w, ints, 2, 3, scratch), {"x: dtype int32"});
  expect_error(run(out, x, x, 2, 3, scratch), {"weight: dtype float32"});
  expect_error(run(out, w, x, 2, 3, {}), {"workspace: 0 bytes", "ggml_mul_mat_a8_workspace_bytes(2, 64)"});
  Workspace off = scratch;
  off.data = static_cast<char*>(off.data) + 1;
  expect_error(run(out, w, x, 2, 3, off), {"workspace: an address off a multiple of 64"});
  expect_error(run(out, w, x, 10, 3, scratch), {"type: 10 (Q2_K)", "Q6_K (14)"});
  expect_error(run(x.tensor().slice(1, 0, 3), w, x, 2, 3, scratch), {"out: memory that overlaps x"});
  expect_error([&] { ggml_mul_mat_vec_a8(out, w, x, -1, 3, {}, scratch); },
               {"ggml_mul_mat_vec_a8: type: -1"});
  expect_error([] { ggml_mul_mat_a8_workspace_bytes(std::int64_t{1} << 60, 64); }, {"workspace_bytes: size"});
  expect_error([] { ggml_mul_mat_a8_workspace_bytes(1, -1); }, {"workspace_bytes: size"});
  EXPECT_GT(ggml_mul_mat_a8_workspace_bytes(std::int64_t{1} << 20, std::int64_t{1} << 20),
            std::int64_t{1} << 40);
}

}  // namespace
}  // namespace musaic::testing
