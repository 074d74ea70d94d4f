#include "llm/gguf.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "llm/gguf_writer.h"
#include "musaic/error.h"

namespace musaic::llm {
namespace {

/// The text of the error that parsing gives; "" when there is none.
std::string parse_error(const std::vector<std::byte>& bytes) {
  // An exact heap copy, so that a read past the end is seen by a memory checker.
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());
  try {
    GgufFile::parse(copy, "test.gguf");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string parse_error(const GgufWriter& writer) { return parse_error(writer.bytes()); }

void expect_error(const GgufWriter& writer, const std::string& part) {
  const std::string error = parse_error(writer);
  EXPECT_NE(error.find(part), std::string::npos) << "wanted " << part << " in \"" << error << '"';
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  EXPECT_EQ(error.find("test.gguf: "), 0u) << error;
}

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

GgufWriter two_tensors(uint32_t version = 3) {
  GgufWriter writer(version);
  writer.add("general.architecture", "llama").add("list", std::vector<std::string>{"a", "", "bcd"});
  writer.add_tensor("first", GgmlType::kF32, {3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
  writer.add_tensor("second", GgmlType::kI8, {5}, std::vector<int8_t>{1, 2, 3, 4, 5});
  return writer;
}

TEST(Gguf, ReadsWhatWasWritten) {
  for (const uint32_t version : {2u, 3u}) {
    const std::vector<std::byte> bytes = two_tensors(version).bytes();
    const GgufFile file = GgufFile::parse(bytes);
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.alignment(), 32u);
    EXPECT_EQ(file.file_bytes(), bytes.size());
    ASSERT_EQ(file.entries().size(), 2u);
    ASSERT_EQ(file.tensors().size(), 2u);
    EXPECT_EQ(file.get_string("general.architecture"), "llama");
    EXPECT_EQ(file.get_strings("list"), (std::vector<std::string_view>{"a", "", "bcd"}));
    const GgufTensor& first = file.tensor("first");
    EXPECT_EQ(first.type, GgmlType::kF32);
    EXPECT_EQ(first.n_dims, 2);
    EXPECT_EQ(first.dims, (std::array<int64_t, 4>{3, 2, 1, 1}));
    EXPECT_EQ(first.dims_text(), "[3, 2]");
    EXPECT_EQ(first.bytes, 24u);
    EXPECT_EQ(first.elements(), 6);
    EXPECT_EQ(first.rows(), 2);
    float last;
    std::memcpy(&last, first.data + 20, 4);
    EXPECT_EQ(last, 6.0f);
    EXPECT_EQ(static_cast<int>(file.tensor("second").data[4]), 5);
    EXPECT_EQ(file.find_tensor("third"), nullptr);
    EXPECT_THROW(file.tensor("third"), Error);
  }
}

TEST(Gguf, AnEmptyFileOfMetadataIsValid) {
  EXPECT_EQ(parse_error(GgufWriter()), "");
  EXPECT_EQ(parse_error(GgufWriter().add("k", 1)), "");
}

TEST(Gguf, ValuesOfEveryType) {
  GgufWriter writer;
  writer.add("u8", uint8_t{200}).add("i8", int8_t{-7}).add("u16", uint16_t{65535}).add("i16", int16_t{300});
  writer.add("u32", uint32_t{4000000000u})
      .add("i32", int32_t{-1})
      .add("u64", UINT64_MAX)
      .add("i64", int64_t{5});
  writer.add("f32", 1.5f)
      .add("f64", 0.25)
      .add("big", 1e300)
      .add("yes", true)
      .add("no", false)
      .add("text", "héllo");
  writer.add("f32s", std::vector<float>{1, 2}).add("i32s", std::vector<int32_t>{-1, 7});
  writer.add("u32s", std::vector<uint32_t>{7, 4000000000u}).add("none", std::vector<int32_t>{});
  const std::vector<std::byte> bytes = writer.bytes();
  const GgufFile file = GgufFile::parse(bytes, "values.gguf");
  EXPECT_EQ(file.get_u64("u8"), 200u);
  EXPECT_EQ(file.get_u64("u16"), 65535u);
  EXPECT_EQ(file.get_u64("i16"), 300u);
  EXPECT_EQ(file.get_u64("u32"), 4000000000u);
  EXPECT_EQ(file.get_u64("u64"), UINT64_MAX);
  EXPECT_EQ(file.get_u64("i64"), 5u);
  EXPECT_EQ(file.get_f32("f32"), 1.5f);
  EXPECT_EQ(file.get_f32("f64"), 0.25f);
  EXPECT_TRUE(file.get_bool("yes"));
  EXPECT_FALSE(file.get_bool("no"));
  EXPECT_EQ(file.get_string("text"), "héllo");
  EXPECT_EQ(file.get_f32s("f32s"), (std::vector<float>{1, 2}));
  EXPECT_EQ(file.get_i32s("i32s"), (std::vector<int32_t>{-1, 7}));
  EXPECT_TRUE(file.get_i32s("none").empty());
  EXPECT_EQ(file.find_u64("absent"), std::nullopt);
  EXPECT_EQ(file.find_f32("absent").value_or(2.0f), 2.0f);
  EXPECT_EQ(file.find("absent"), nullptr);

  const auto error = [](auto call) -> std::string {
    try {
      call();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error([&] { file.get_u64("text"); }), "values.gguf: \"text\": string, expected an integer");
  EXPECT_EQ(error([&] { file.get_u64("absent"); }),
            "values.gguf: \"absent\": no such key in the file, expected an integer");
  EXPECT_EQ(error([&] { file.get_u64("u8", 1, 100); }),
            "values.gguf: \"u8\": 200, expected a value from 1 to 100");
  EXPECT_EQ(error([&] { file.get_u64("i8"); }), "values.gguf: \"i8\": -7, expected 0 or more");
  EXPECT_EQ(error([&] { file.get_string("u8"); }), "values.gguf: \"u8\": u8, expected string");
  EXPECT_EQ(error([&] { file.get_bool("u8"); }), "values.gguf: \"u8\": u8, expected bool");
  EXPECT_EQ(error([&] { file.get_f32("u8"); }), "values.gguf: \"u8\": u8, expected f32");
  EXPECT_NE(error([&] { file.get_f32("big"); }), "");
  EXPECT_EQ(error([&] { file.get_f32s("i32s"); }),
            "values.gguf: \"i32s\": array of 2 i32, expected array of f32");
  EXPECT_EQ(error([&] { file.get_strings("f32"); }), "values.gguf: \"f32\": f32, expected array of string");
  EXPECT_EQ(error([&] { file.get_i32s("u32s"); }),
            "values.gguf: \"u32s\": element 4000000000, expected at most 2^31 - 1");
}

TEST(Gguf, WrongMagicAndVersion) {
  std::vector<std::byte> bytes = GgufWriter().bytes();
  bytes[0] = std::byte{'X'};
  EXPECT_EQ(parse_error(bytes), "test.gguf: magic: \"XGUF\", expected \"GGUF\": this is no GGUF file");
  for (const uint32_t version : {0u, 1u, 4u, 0x03000000u}) expect_error(GgufWriter(version), "version");
}

TEST(Gguf, C59MalformedHeaders) {
  expect_error(GgufWriter().add_raw_tensor("zero", 0, {4, 0}, 0), "tensor \"zero\": dimension 1 = 0");
  expect_error(GgufWriter().add("general.alignment", uint8_t{32}), "\"general.alignment\": u8, expected u32");
  expect_error(GgufWriter().add("general.alignment", "32"), "\"general.alignment\": string, expected u32");
  expect_error(GgufWriter().add("general.alignment", std::vector<uint32_t>{32}),
               "\"general.alignment\": array of 1 u32, expected u32");
  for (const uint32_t alignment : {0u, 1u, 4u, 24u, 33u}) {
    expect_error(GgufWriter().add("general.alignment", alignment), "expected a power of two, at least 8");
  }
  expect_error(GgufWriter().add("", 1), "empty key");
  expect_error(GgufWriter().add("k", 1).add("other", 1).add("k", "x"), "\"k\": the key twice");
  expect_error(GgufWriter().add(std::string(65536, 'k'), 1), "at most 65535 bytes");
  expect_error(GgufWriter().add_raw("k", 13, "1234"), "\"k\" (type): 13");
  expect_error(GgufWriter().add_raw("k", 7, "\x02"), "\"k\": bool with the value 2");
  std::string nested;
  GgufWriter::put(nested, uint32_t{9});
  GgufWriter::put(nested, uint64_t{0});
  expect_error(GgufWriter().add_raw("k", 9, nested), "array of arrays");
  expect_error(GgufWriter().add_raw("evil\n\x1b[2J\xff", 13, ""), "\"evil\\x0a\\x1b[2J\\xff\" (type): 13");

  const std::vector<float> one{1};
  expect_error(
      GgufWriter().add_tensor("t", GgmlType::kF32, {1}, one).add_tensor("t", GgmlType::kF32, {1}, one),
      "tensor \"t\": the name twice");
  expect_error(GgufWriter().add_tensor("", GgmlType::kF32, {1}, one), "expected 1 to 64 bytes");
  expect_error(GgufWriter().add_tensor(std::string(65, 't'), GgmlType::kF32, {1}, one),
               "expected 1 to 64 bytes");
  for (const uint32_t type : {4u, 5u, 31u, 33u, 99u, 0xFFFFFFFFu}) {
    expect_error(GgufWriter().add_raw_tensor("t", type, {32}, 0).add_data(256),
                 "tensor \"t\": type " + std::to_string(type) + ", expected one of 0=F32 1=F16");
  }
  expect_error(GgufWriter().add_raw_tensor("t", 3, {33}, 0).add_data(256), "expected a multiple of 32");
}

TEST(Gguf, C60SizesThatOverflow) {
  const long before = peak_kib();
  expect_error(GgufWriter().add_raw_tensor("t", 0, {1152, (int64_t{1} << 42) + 1}, 0), "tensor \"t\"");
  const int64_t max = std::numeric_limits<int64_t>::max();
  expect_error(GgufWriter().add_raw_tensor("t", 24, {max, 2}, 0), "product of dimensions");
  expect_error(GgufWriter().add_raw_tensor("t", 24, {max, 1}, 0), "tensor \"t\"");
  expect_error(GgufWriter().add_raw_tensor("t", 28, {max, 1}, 0), "size past 2^64");
  expect_error(GgufWriter().add_raw_tensor("t", 0, {-1}, 0), "dimension 0 = 18446744073709551615");
  expect_error(GgufWriter().add_raw_tensor("t", 0, {1, 1, 1, 1, 1}, 0), "5 dimensions");
  expect_error(GgufWriter().add_raw_tensor("t", 0, {}, 0), "0 dimensions");
  for (const uint64_t count : {uint64_t{1} << 60, UINT64_MAX, uint64_t{1} << 32, uint64_t{1}}) {
    expect_error(GgufWriter().set_counts(count, 0), "tensor count");
    expect_error(GgufWriter().set_counts(0, count), "metadata count");
  }

  std::string length;
  GgufWriter::put(length, uint64_t{1} << 63);
  expect_error(GgufWriter().add_raw("k", 8, length), "\"k\": needs 9223372036854775808 bytes");
  for (const auto& [type, count] : {std::pair{10u, uint64_t{1} << 61},
                                    {10u, UINT64_MAX},
                                    {0u, UINT64_MAX},
                                    {8u, uint64_t{1} << 61},
                                    {8u, UINT64_MAX},
                                    {10u, uint64_t{3}}}) {
    std::string array;
    GgufWriter::put(array, type);
    GgufWriter::put(array, count);
    expect_error(GgufWriter().add_raw("k", 9, array + std::string(16, '\0')), "\"k\"");
  }

  // Two tensors whose padded sizes sum past 2^64.
  const int64_t half = int64_t{1} << 60;
  expect_error(
      GgufWriter().add_raw_tensor("a", 28, {half}, 0).add_raw_tensor("b", 28, {half}, uint64_t{1} << 63),
      "tensor \"a\"");
  expect_error(
      GgufWriter().add_raw_tensor("a", 0, {8}, 0).add_raw_tensor("b", 0, {8}, UINT64_MAX - 31).add_data(64),
      "tensor \"b\"");
  expect_error(GgufWriter().add_raw_tensor("a", 0, {8}, UINT64_MAX), "offset");
  EXPECT_LT(peak_kib() - before, 64 * 1024);
}

TEST(Gguf, C62TruncatedFiles) {
  const std::vector<std::byte> bytes = two_tensors().bytes();
  EXPECT_EQ(parse_error(bytes), "");
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(parse_error(cut), "") << "cut at " << size << " of " << bytes.size();
  }
}

TEST(Gguf, C62TensorOffsets) {
  const auto pair = [](uint64_t a, uint64_t b, uint64_t data) {
    return GgufWriter().add_raw_tensor("a", 0, {8}, a).add_raw_tensor("b", 0, {16}, b).add_data(data);
  };
  EXPECT_EQ(parse_error(pair(0, 32, 96)), "");
  EXPECT_EQ(parse_error(pair(64, 0, 96)), "") << "the order in the file is free";
  EXPECT_EQ(parse_error(pair(0, 128, 192)), "") << "gaps are allowed";
  expect_error(pair(0, 33, 128), "tensor \"b\": offset 33, expected a multiple of 32");
  expect_error(pair(0, 32, 95), "tensor \"b\": 64 bytes at offset 32");
  expect_error(pair(0, 0, 96), "begins at offset 0");
  expect_error(pair(32, 0, 96), "tensor \"b\": 64 bytes at offset 0, expected to end before tensor \"a\"");
  expect_error(pair(0, 4096, 96), "tensor \"b\"");
}

TEST(Gguf, AlignmentFromTheFile) {
  GgufWriter writer;
  writer.set_alignment(256).add_tensor("t", GgmlType::kI8, {1}, std::vector<int8_t>{9});
  writer.add_tensor("u", GgmlType::kI8, {1}, std::vector<int8_t>{8});
  const std::vector<std::byte> bytes = writer.bytes();
  const GgufFile file = GgufFile::parse(bytes);
  EXPECT_EQ(file.alignment(), 256u);
  EXPECT_EQ((file.tensor("u").data - bytes.data()) % 256, 0);
  EXPECT_EQ(static_cast<int>(*file.tensor("u").data), 8);
}

TEST(Gguf, SizesOfTensorTypes) {
  EXPECT_EQ(ggml_type_info(GgmlType::kQ4_1).block_bytes, 20);
  EXPECT_EQ(ggml_type_info(GgmlType::kQ6_K).block_elements, 256);
  EXPECT_THROW(ggml_type_info(static_cast<GgmlType>(4)), Error);
  for (const GgmlTypeInfo& info : ggml_types()) {
    const std::vector<std::byte> data(static_cast<size_t>(3 * info.block_bytes));
    const std::vector<std::byte> bytes =
        GgufWriter().add_tensor("t", info.type, {info.block_elements, 3}, data).bytes();
    EXPECT_EQ(GgufFile::parse(bytes).tensor("t").bytes, data.size()) << info.name;
  }
}

TEST(Gguf, OpensFilesAndNamesThoseItCannotOpen) {
  const std::string path = testing::TempDir() + "musaic_gguf_open.gguf";
  two_tensors().write(path);
  {
    GgufFile file = GgufFile::open(path);
    GgufFile moved = std::move(file);
    EXPECT_EQ(moved.tensor("first").dims_text(), "[3, 2]");
    EXPECT_EQ(moved.name(), path);
    moved.check_unchanged();
  }
  std::remove(path.c_str());
  const auto open_error = [](const std::string& name) -> std::string {
    try {
      GgufFile::open(name);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(open_error(path), path + ": cannot open: No such file or directory");
  EXPECT_NE(open_error(testing::TempDir()).find("not a regular file"), std::string::npos);
  EXPECT_NE(open_error("/dev/zero").find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace musaic::llm
