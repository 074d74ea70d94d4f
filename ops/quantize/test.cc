#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/quantize/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

using Numbers = std::vector<double>;
using Bytes = std::vector<unsigned char>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr DType kFloat8Types[] = {kFloat8E4M3FN, kFloat8E4M3FNUZ, kFloat8E5M2, kFloat8E5M2FNUZ};

const reference::Format8& format_of(DType t) {
  return t == kFloat8E4M3FN     ? reference::kE4M3FN
         : t == kFloat8E4M3FNUZ ? reference::kE4M3FNUZ
         : t == kFloat8E5M2     ? reference::kE5M2
                                : reference::kE5M2FNUZ;
}
double high_of(DType t) {
  return t == kInt8 ? 127 : t == kFloat8E4M3FN ? 448 : t == kFloat8E4M3FNUZ ? 240 : 57344;
}
double decoded(DType t, unsigned char code) {
  return t == kInt8 ? static_cast<double>(static_cast<signed char>(code))
                    : reference::decode8(format_of(t), code);
}
unsigned code_of(DType t, double v, bool truncate = false) {
  return t == kInt8 ? reference::encode_int8(v, truncate) : reference::encode8(format_of(t), v);
}

/// The 8-bit types that the current target has.
std::vector<DType> code_types() {
  std::vector<DType> types = {kInt8};
  for (const DType t : kFloat8Types)
    if (lacks_dtype(device(), t).empty()) types.push_back(t);
  return types;
}

/// Tables of nearest codes are slow to search; each value's code is looked up once.
class Codes {
 public:
  explicit Codes(DType type) : type_(type) {
    for (unsigned c = 0; c < 128 && type != kInt8; ++c) {
      const double v = reference::decode8(format_of(type), c);
      if (std::isfinite(v)) numbers_.push_back(v);
    }
  }
  /// As code_of(), by bisection.
  unsigned operator()(double v) const {
    if (type_ == kInt8 || !std::isfinite(v)) return code_of(type_, v);
    const double a = std::fabs(v);
    const auto above = std::lower_bound(numbers_.begin(), numbers_.end(), a);
    auto best = static_cast<unsigned>(above - numbers_.begin());
    if (above == numbers_.end()) {
      best = static_cast<unsigned>(numbers_.size()) - 1;
    } else if (best > 0) {
      const double up = *above - a, down = a - *(above - 1);
      if (down < up || (down == up && best % 2 == 1)) --best;
    }
    return std::signbit(v) && !(format_of(type_).fnuz && best == 0) ? best | 0x80 : best;
  }

 private:
  DType type_;
  Numbers numbers_;
};

Numbers part(const Numbers& v, std::int64_t begin, std::int64_t count) {
  return {v.begin() + begin, v.begin() + begin + count};
}
float largest_size(const Numbers& v, double least = 0) {
  double most = static_cast<double>(static_cast<float>(least));
  for (const double x : v)
    if (std::fabs(x) > most) most = std::fabs(x);
  return static_cast<float>(most);
}

class Quantize : public OnTarget {};

TEST(QuantizeReference, BisectionIsTheDefinition) {
  for (const DType t : kFloat8Types) {
    const Codes codes(t);
    for (int i = 0; i < 3000; ++i) {
      const double v = normal() * std::exp2(uniform_int(-20, 17));
      ASSERT_EQ(codes(v), code_of(t, v)) << v << " " << to_string(t);
    }
    for (unsigned c = 0; c < 256; ++c) {
      const double v = reference::decode8(format_of(t), c);
      if (std::isfinite(v)) {
        ASSERT_EQ(codes(v), c);
      }
    }
  }
}

TEST_P(Quantize, AllCodesOf16Bits) {
  for (const DType dtype : float_types())
    for (const DType type : code_types()) {
      if (dtype == kFloat32) continue;
      const Codes expected(type);
      const std::int64_t step = scaled<std::int64_t>(1, 13), n = 65536 / step;
      Buffer in(dtype, {n}), q(type, {n}), s(kFloat32, {1});
      Bytes bytes;
      for (std::int64_t i = 0; i < n; ++i) {
        const auto code = static_cast<std::uint16_t>(i * step);
        bytes.push_back(static_cast<unsigned char>(code & 0xff));
        bytes.push_back(static_cast<unsigned char>(code >> 8));
      }
      in.set_bytes(bytes);
      s.set(0, 1.0);
      per_tensor_quant_8bit(q, s, in, true);
      const Numbers x = in.values();
      const Bytes got = q.bytes();
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(got[i], expected(x[i]))
            << x[i] << " from " << to_string(dtype) << " to " << to_string(type);
    }
}

TEST_P(Quantize, MidpointsAndNeighboursOfEveryCode) {
  for (const DType type : code_types()) {
    if (type == kInt8) continue;
    const reference::Format8& f = format_of(type);
    const Codes expected(type);
    Numbers x;
    for (unsigned c = 0; c < 256; ++c) {
      const double v = reference::decode8(f, c), next = reference::decode8(f, (c & 0x80) | ((c + 1) & 0x7f));
      if (!std::isfinite(v)) continue;
      const double middle = std::isfinite(next) ? (v + next) / 2 : v * 1.0625;
      for (const double m : {v, middle}) {
        x.push_back(m);
        const auto m32 = static_cast<float>(m);
        x.push_back(static_cast<double>(std::nextafter(m32, 1e9f)));
        x.push_back(static_cast<double>(std::nextafter(m32, -1e9f)));
      }
    }
    const auto n = static_cast<std::int64_t>(x.size());
    Buffer in(kFloat32, {n}), q(type, {n}), s(kFloat32, {1});
    in.fill([&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; });
    s.set(0, 1.0);
    per_tensor_quant_8bit(q, s, in, true);
    const Bytes got = q.bytes();
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], expected(x[i])) << x[i] << " " << to_string(type);
  }
}

TEST_P(Quantize, C21KnownCodes) {
  MUSAIC_NEEDS(kFloat8E4M3FN);
  const struct {
    double value;
    unsigned code;
  } table[] = {{0, 0x00},      {-0.0, 0x80}, {0x1p-10, 0x00}, {0x1p-9, 0x01}, {3 * 0x1p-10, 0x02},
               {0.0175, 0x09}, {1, 0x38},    {1.0625, 0x38},  {1.1875, 0x3a}, {100, 0x6c},
               {127, 0x70},    {128, 0x70},  {136, 0x70},     {200, 0x74},    {240, 0x77},
               {248, 0x78},    {256, 0x78},  {272, 0x78},     {300, 0x79},    {304, 0x7a},
               {400, 0x7c},    {432, 0x7e},  {448, 0x7e},     {464, 0x7e},    {480, 0x7e},
               {1e6, 0x7e},    {-1e6, 0xfe}, {kInf, 0x7e},    {kNan, 0x7f}};
  for (const auto& [value, code] : table)
    for (const std::int64_t n : {1, 8, 11}) {  // the vector and the tail
      Buffer in(kFloat32, {n}), q(kFloat8E4M3FN, {n}), s(kFloat32, {1});
      in.fill([v = value](std::int64_t) { return v; });
      s.set(0, 1.0);
      per_tensor_quant_8bit(q, s, in, true);
      EXPECT_EQ(q.bytes(), Bytes(static_cast<std::size_t>(n), static_cast<unsigned char>(code))) << value;
    }
}

TEST_P(Quantize, C18Int8SaturatesAndRoundsToEven) {
  const double values[] = {-1000, -128.6, -127.6, -2.5,  -1.5,  -0.5, 0.5,
                           1.5,   2.5,    126.5,  127.4, 127.6, 1000, 3e38};
  const int expected[] = {-128, -128, -128, -2, -2, 0, 0, 2, 2, 126, 127, 127, 127, 127};
  for (std::int64_t n = 1; n <= 40; ++n) {
    Buffer in(kFloat32, {n}, n % 3), q(kInt8, {n}, n % 5), s(kFloat32, {1});
    in.fill([&](std::int64_t i) { return values[(i + n) % 14]; });
    s.set(0, 1.0);
    per_tensor_quant_8bit(q, s, in, true);
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(q.get(i), expected[(i + n) % 14]) << values[(i + n) % 14];
    q.expect_guards_intact("output_q");
  }
}

void expect_groups(Buffer& in, DType type, std::int64_t group, double eps, bool ue8m0, bool truncate,
                   bool packed, bool column_major) {
  const std::int64_t rows = in.tensor().size(0), n = in.tensor().size(1), groups = n / group;
  const std::int64_t columns = packed ? (groups + 3) / 4 : groups, padded = (rows + 3) / 4 * 4;
  Buffer q(type, {rows, n}, 1, {n + 3, 1}),
      s(packed ? kInt32 : kFloat32, {rows, columns}, 1,
        column_major ? std::vector<std::int64_t>{1, padded} : std::vector<std::int64_t>{columns + 1, 1});
  q.poison();
  s.poison();
  const double high = high_of(type), low = type == kInt8 ? -128 : -high;
  per_token_group_quant_8bit(q, s, in, {}, group, eps, low, high, ue8m0, false, truncate);
  q.expect_guards_intact("output_q");
  s.expect_guards_intact("output_s");
  const Codes code(type);
  const Numbers x = in.values();
  const Bytes got = q.bytes(), words = s.bytes();
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t g = 0; g < groups; ++g) {
      const Numbers v = part(x, r * n + g * group, group);
      const float most = largest_size(v, eps), scale = most / static_cast<float>(high);
      int exponent = 0;
      if (ue8m0) {
        const double fraction = std::frexp(static_cast<double>(scale), &exponent);
        exponent = scale == 0 ? -127 : fraction == 0.5 ? exponent - 1 : exponent;
        if (exponent < -126 && scale != 0) exponent = -126;
      }
      const double stored = ue8m0 ? std::ldexp(1.0, exponent) : static_cast<double>(scale);
      if (packed)
        ASSERT_EQ(words[static_cast<std::size_t>(4 * (r * columns + g / 4) + g % 4)], exponent + 127)
            << "group " << g;
      else
        ASSERT_EQ(s.get(r * columns + g), stored) << "group " << g << " of row " << r;
      for (std::int64_t i = 0; i < group; ++i) {
        const double value = v[static_cast<std::size_t>(i)];
        const double quotient = ue8m0 ? static_cast<double>(static_cast<float>(std::ldexp(value, -exponent)))
                                : truncate && type == kInt8 && scale != 0
                                    ? static_cast<double>(static_cast<float>(value) / scale)
                                    : reference::scaled(value, scale);
        const unsigned expected = type == kInt8 ? reference::encode_int8(quotient, truncate) : code(quotient);
        ASSERT_EQ(got[static_cast<std::size_t>(r * n + g * group + i)], expected)
            << value << " with scale " << stored << " to " << to_string(type) << ", group " << group;
      }
    }
  for (std::int64_t r = 0; packed && r < rows; ++r)
    for (std::int64_t g = groups; g < 4 * columns; ++g)
      EXPECT_EQ(words[static_cast<std::size_t>(4 * r * columns + g)], 0);
}

TEST_P(Quantize, GroupsOfEveryKind) {
  int turn = 0;
  for (const DType dtype : float_types())
    for (const DType type : code_types())
      for (const std::int64_t group : {1, 3, 16, 20, 32, 128, 300}) {
        if (is_slow() && (turn + group) % 3 == 0) continue;
        const std::int64_t groups = uniform_int(1, 6), rows = uniform_int(1, 5), n = group * groups;
        Buffer in(dtype, {rows, n}, turn % 3, {n + turn % 4, 1});
        in.fill_normal(std::exp2(uniform_int(-6, 6)));
        for (std::int64_t i = 0; i < group; ++i) in.set(i, turn % 2 == 0 ? 0.0 : -0.0);
        const bool ue8m0 = turn % 2 == 1, packed = ue8m0 && turn % 4 == 1;
        expect_groups(in, type, group, turn % 5 == 0 ? 0 : 1e-10, ue8m0, turn % 3 == 0, packed, turn % 7 < 3);
        if (HasFatalFailure()) return;
        ++turn;
      }
}

TEST_P(Quantize, ScalesOfTinyAndHugeNumbers) {
  for (const DType type : code_types())
    for (const double size : {1e-45, 1e-40, 1e-36, 1e-31, 1e-20, 1e20, 3.4e38})
      for (const bool ue8m0 : {false, true}) {
        Buffer in(kFloat32, {2, 32});
        in.fill([&](std::int64_t) { return size * uniform(-1, 1); });
        expect_groups(in, type, 16, 0, ue8m0, false, false, false);
        if (HasFatalFailure()) return;
      }
}

TEST_P(Quantize, C17EveryHiddenSize) {
  for (const DType dtype : float_types())
    for (const DType type : code_types())
      for (const std::int64_t n : {1368, 1076, 1077, 3420, 16, 3, 1}) {
        if (is_slow() && n > 1000 && (n != 1077 || dtype == kFloat32)) continue;
        Buffer in(dtype, {4, n}, 1), q(type, {4, n}, 1), s(kFloat32, {4, 1}, 1);
        in.fill([&](std::int64_t i) { return static_cast<double>((i / n + 1) * (i % n % 9 - 4)); });
        q.poison();
        s.poison();
        per_token_quant_8bit(q, s, in);
        q.expect_guards_intact("output_q");
        s.expect_guards_intact("output_s");
        const Codes code(type);
        const Numbers x = in.values();
        const Bytes got = q.bytes();
        for (std::int64_t t = 0; t < 4; ++t) {
          const Numbers row = part(x, t * n, n);
          const float scale = largest_size(row) / static_cast<float>(high_of(type));
          ASSERT_EQ(s.get(t), static_cast<double>(scale));
          for (std::int64_t i = 0; i < n; ++i)
            ASSERT_EQ(got[static_cast<std::size_t>(t * n + i)],
                      code(reference::scaled(row[static_cast<std::size_t>(i)], scale)))
                << row[static_cast<std::size_t>(i)] << " of " << n;
        }
      }
}

TEST_P(Quantize, C16ZeroBlocks) {
  for (const DType dtype : float_types())
    for (const DType type : code_types())
      for (const bool all_zero : {false, true}) {
        Buffer in(dtype, {3, 256}), q(type, {3, 256}), s(kFloat32, {3, 2}), q1(type, {3, 256}),
            s1(kFloat32, {3}), q0(type, {3, 256}), s0(kFloat32, {1});
        const auto is_zero = [&](std::int64_t i) {
          return all_zero || i / 256 == 1 || (i / 256 == 0 && i % 256 >= 128);
        };
        in.fill([&](std::int64_t i) {
          return is_zero(i) ? (i % 3 == 0 ? -0.0 : 0.0) : static_cast<double>(i % 100 + 1);
        });
        for (const double eps : {0.0, 1e-10}) {
          per_token_group_quant_8bit(q, s, in, {}, 128, eps, -high_of(type), high_of(type));
          per_token_quant_8bit(q1, s1, in);
          per_tensor_quant_8bit(q0, s0, in);
          for (const Buffer* scales : {&s, &s1, &s0})
            for (const double v : scales->values()) EXPECT_TRUE(std::isfinite(v)) << v;
          for (const Buffer* codes : {&q, &q1, &q0}) {
            const Bytes got = codes->bytes();
            for (std::int64_t i = 0; i < 3 * 256; ++i) {
              const double v = decoded(type, got[static_cast<std::size_t>(i)]);
              if (is_zero(i))
                ASSERT_EQ(v, 0.0) << "element " << i;
              else
                ASSERT_GT(v, 0.0) << "element " << i;
            }
          }
        }
      }
}

TEST_P(Quantize, C19ManyRows) {
  const std::int64_t rows = scaled<std::int64_t>(65537, 700), n = 128;
  Buffer in(kFloat16, {rows, n});
  in.fill([&](std::int64_t i) { return static_cast<double>(i / n % 100 + 1); });
  for (const DType type : code_types()) {
    if (type != kInt8 && type != kFloat8E4M3FN) continue;
    for (const bool column_major : {false, true}) {
      Buffer q(type, {rows, n}),
          s(kFloat32, {rows, 1}, 0,
            column_major ? std::vector<std::int64_t>{1, rows} : std::vector<std::int64_t>{1, 1});
      per_token_group_quant_8bit(q, s, in, {}, n, 1e-10, -high_of(type), high_of(type));
      const Bytes got = q.bytes();
      const Numbers scales = s.values();
      for (std::int64_t r = 0; r < rows; ++r) {
        const float x = static_cast<float>(r % 100 + 1), scale = x / static_cast<float>(high_of(type));
        ASSERT_EQ(scales[static_cast<std::size_t>(r)], static_cast<double>(scale)) << "row " << r;
        const unsigned code = code_of(type, reference::scaled(static_cast<double>(x), scale));
        ASSERT_EQ(got[static_cast<std::size_t>(r * n)], code) << "row " << r;
        ASSERT_EQ(got[static_cast<std::size_t>(r * n + n - 1)], code) << "row " << r;
      }
    }
  }
}

TEST_P(Quantize, C20NoRows) {
  Buffer in(kFloat32, {0, 128}), q(kInt8, {0, 128}), s(kFloat32, {0, 1}),
      columns(kFloat32, {0, 1}, 0, {1, 0}), one(kFloat32, {1}), wide(kFloat32, {2, 0}),
      no_codes(kInt8, {2, 0}), two(kFloat32, {2}), none(kFloat32, {2, 0});
  one.poison();
  two.poison();
  EXPECT_NO_THROW(per_token_quant_8bit(q, s, in));
  EXPECT_NO_THROW(per_token_group_quant_8bit(q, s, in, {}, 128, 1e-10, -128, 127));
  EXPECT_NO_THROW(per_token_group_quant_8bit(q, columns, in, {}, 128, 1e-10, -128, 127));
  EXPECT_NO_THROW(per_token_group_quant_8bit(no_codes, none, wide, {}, 128, 1e-10, -128, 127));
  EXPECT_NO_THROW(per_tensor_quant_8bit(q, one, in));
  EXPECT_EQ(one.get(0), 0.0);
  EXPECT_NO_THROW(per_token_quant_8bit(no_codes, two, wide));
  EXPECT_EQ(two.get(1), 0.0);
}

TEST_P(Quantize, C23Slices) {
  for (const DType type : code_types()) {
    const DType dtype = float_types().back();
    Buffer whole(dtype, {5, 256}), packed(dtype, {5, 128});
    const auto ramp = [](std::int64_t i) {
      return static_cast<double>(i % 256 - 100) * 0.25 + static_cast<double>(i / 256);
    };
    whole.fill(ramp);
    packed.fill([&](std::int64_t i) { return ramp(i / 128 * 256 + 64 + i % 128); });
    Buffer q(type, {5, 128}), s(kFloat32, {5, 2}), q2(type, {5, 128}), s2(kFloat32, {5, 2}), t(kFloat32, {5}),
        t2(kFloat32, {5});
    const double high = high_of(type);
    per_token_group_quant_8bit(q, s, whole.view(64, {5, 128}, {256, 1}), {}, 64, 1e-10, -high, high);
    per_token_group_quant_8bit(q2, s2, packed, {}, 64, 1e-10, -high, high);
    EXPECT_EQ(q.bytes(), q2.bytes());
    EXPECT_EQ(s.bytes(), s2.bytes());
    per_token_quant_8bit(q, t, whole.view(64, {5, 128}, {256, 1}));
    per_token_quant_8bit(q2, t2, packed);
    EXPECT_EQ(q.bytes(), q2.bytes());
    EXPECT_EQ(t.bytes(), t2.bytes());
  }
}

TEST_P(Quantize, PerTensorDynamic) {
  for (const DType dtype : float_types())
    for (const DType type : code_types())
      for (const std::int64_t n : {1, 130, 5001}) {
        if (is_slow() && n > 1000 && dtype == kFloat32) continue;
        Buffer in(dtype, {3, n}, 0, {n + 1, 1}), q(type, {3, n}, 1), s(kFloat32, {1}, 1);
        in.fill_normal(5);
        s.poison();
        per_tensor_quant_8bit(q, s, in);
        const Numbers x = in.values();
        const float scale = largest_size(x) / static_cast<float>(high_of(type));
        ASSERT_EQ(s.get(0), static_cast<double>(scale));
        const Codes code(type);
        const Bytes got = q.bytes();
        for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(got[i], code(reference::scaled(x[i], scale)));
        q.expect_guards_intact("output_q");
      }
}

TEST_P(Quantize, NansAndInfinities) {
  for (const DType type : code_types()) {
    Buffer in(kFloat32, {2, 16}), q(type, {2, 16}), s(kFloat32, {2});
    in.fill([](std::int64_t i) { return i == 3 ? kNan : i == 20 ? kInf : 1.0; });
    per_token_quant_8bit(q, s, in);
    const Bytes got = q.bytes();
    EXPECT_EQ(s.get(0), static_cast<double>(1.0f / static_cast<float>(high_of(type))));
    EXPECT_EQ(s.get(1), kInf);
    EXPECT_EQ(got[3], code_of(type, kNan));
    EXPECT_EQ(decoded(type, got[0]), high_of(type));
    EXPECT_EQ(got[20], code_of(type, kNan));
    EXPECT_EQ(decoded(type, got[16]), 0.0);
  }
}

/// What silu(gate) * up is in float64, and how far the rounded products may be from it.
TEST_P(Quantize, FusedActivationAndMask) {
  for (const DType dtype : float_types())
    for (const DType type : code_types()) {
      const std::int64_t experts = 3, rows = 5, n = 64, group = 32;
      const double high = high_of(type);
      Buffer in(dtype, {experts, rows, 2 * n}), q(type, {experts, rows, n}), s(kFloat32, {experts, rows, 2}),
          mask(kInt32, {experts}), activated(dtype, {experts * rows, n}), q2(type, {experts * rows, n}),
          s2(kFloat32, {experts * rows, 2});
      in.fill_normal(2);
      const double counts[] = {0, 5, 2};
      mask.fill([&](std::int64_t e) { return counts[e]; });
      q.poison();
      s.poison();
      const unsigned char poisoned = q.bytes()[0];
      per_token_group_quant_8bit(q, s, in, mask, group, 1e-10, type == kInt8 ? -128 : -high, high, false,
                                 true);
      EXPECT_NO_THROW(check(device()));
      const Numbers x = in.values(), scales = s.values();
      const Bytes got = q.bytes();
      const double step = type == kInt8 ? 0.5 : std::exp2(-1 - format_of(type).mantissa_bits);
      for (std::int64_t r = 0; r < experts * rows; ++r) {
        const bool is_there = static_cast<double>(r % rows) < counts[r / rows];
        for (std::int64_t i = 0; i < n; ++i) {
          const auto at = static_cast<std::size_t>(r * n + i);
          const double scale = scales[static_cast<std::size_t>(r * 2 + i / group)];
          if (!is_there) {
            ASSERT_EQ(got[at], poisoned);
            ASSERT_TRUE(std::isnan(scale));
            continue;
          }
          const double gate = x[static_cast<std::size_t>(r * 2 * n + i)],
                       up = x[static_cast<std::size_t>(r * 2 * n + n + i)];
          const double y = gate / (1 + std::exp(-gate)) * up;
          const double smallest_step = type == kInt8 ? step : reference::decode8(format_of(type), 1) / 2;
          ASSERT_NEAR(decoded(type, got[at]) * scale, y,
                      (type == kInt8 ? step * scale : std::fabs(y) * step + smallest_step * scale) * 1.01 +
                          std::fabs(y) * (3 * epsilon(dtype) + 1e-6) + smallest(dtype))
              << "row " << r << " column " << i;
        }
      }
      mask.set(1, 6);
      q.poison();
      per_token_group_quant_8bit(q, s, in, mask, group, 1e-10, type == kInt8 ? -128 : -high, high, false,
                                 true);
      expect_error([] { check(device()); }, {"per_token_group_quant_8bit: masked_m: 6 at 1"});
      EXPECT_EQ(q.bytes()[static_cast<std::size_t>(rows * n)], poisoned);
      EXPECT_NE(q.bytes(), Bytes(q.bytes().size(), poisoned));
    }
}

MUSAIC_EVERY_TARGET(Quantize);

TEST(QuantizeBits, SameEverywhere) {
  for (const DType dtype : {kFloat32, kFloat16}) {
    Buffer in(dtype, {9, 1200});
    in.fill_normal();
    expect_same_bytes_everywhere([&] {
      Buffer q(kInt8, {9, 1200}), s(kFloat32, {9, 15}), q2(kInt8, {9, 600}), s2(kInt32, {9, 2}),
          q1(kInt8, {9, 1200}), s1(kFloat32, {1});
      per_token_group_quant_8bit(q, s, in, {}, 80, 1e-10, -128, 127, false, false, true);
      per_token_group_quant_8bit(q2, s2, in, {}, 120, 1e-10, -128, 127, true, true);
      per_tensor_quant_8bit(q1, s1, in);
      Bytes bytes;
      for (const Buffer* b : {&q, &s, &q2, &s2, &q1, &s1}) {
        const Bytes more = b->bytes();
        bytes.insert(bytes.end(), more.begin(), more.end());
      }
      return bytes;
    });
  }
}

TEST(QuantizeErrors, NameTheArgument) {
  use_target(targets()[0]);
  const Buffer in(kFloat32, {4, 64}), q(kInt8, {4, 64}), s(kFloat32, {4, 2}), s4(kFloat32, {4}),
      s3(kFloat32, {3}), half(kFloat16, {4, 2}), words(kInt32, {4, 1}), ints(kInt32, {4, 64}),
      small(kInt8, {4, 32}), mask(kInt32, {4}), bytes(kUInt8, {4, 64});
  expect_error([&] { per_token_quant_8bit(bytes, s4, in); }, {"per_token_quant_8bit: output_q: dtype uint8"});
  expect_error([&] { per_token_quant_8bit(q, s3, in); },
               {"per_token_quant_8bit: output_s: 3 elements", "4 rows"});
  expect_error([&] { per_token_quant_8bit(q, half, in); }, {"per_token_quant_8bit: output_s: dtype float16"});
  expect_error([&] { per_token_quant_8bit(small, s4, in); },
               {"per_token_quant_8bit: output_q: shape [4, 32]"});
  expect_error([&] { per_token_quant_8bit(q, s4, ints); }, {"per_token_quant_8bit: input: dtype int32"});
  expect_error([&] { per_tensor_quant_8bit(q, s4, in); }, {"per_tensor_quant_8bit: output_s: 4 elements"});
  const auto groups = [&](const Tensor& codes, const Tensor& scales, std::int64_t size, double eps,
                          double low, double high, bool ue8m0, bool fuse, const Tensor& masked) {
    return [=, &in] {
      per_token_group_quant_8bit(codes, scales, in, masked, size, eps, low, high, ue8m0, fuse);
    };
  };
  const std::string op = "per_token_group_quant_8bit: ";
  expect_error(groups(q, s, 33, 0, -128, 127, false, false, {}), {op + "group_size: 33", "64"});
  expect_error(groups(q, s, 0, 0, -128, 127, false, false, {}), {op + "group_size: 0"});
  expect_error(groups(q, s4, 32, 0, -128, 127, false, false, {}), {op + "output_s: shape [4]", "2 scales"});
  expect_error(groups(q, words, 32, 0, -128, 127, false, false, {}),
               {op + "output_s: dtype int32", "scale_ue8m0"});
  expect_error(groups(q, s, 32, -1, -128, 127, false, false, {}), {op + "eps: -1"});
  expect_error(groups(q, s, 32, kNan, -128, 127, false, false, {}), {op + "eps: "});
  expect_error(groups(q, s, 32, 0, 1, 127, false, false, {}), {op + "min: 1"});
  expect_error(groups(q, s, 32, 0, -128, 0, false, false, {}), {op + "max: 0"});
  expect_error(groups(q, s, 32, 0, -128, kInf, false, false, {}), {op + "max: inf"});
  expect_error(groups(q, s, 32, 0, -128, 127, false, true, {}), {op + "output_q: shape [4, 64]", "half"});
  expect_error(groups(q, s, 32, 0, -128, 127, false, false, mask), {op + "input: rank 2"});
}

}  // namespace
}  // namespace musaic::testing
