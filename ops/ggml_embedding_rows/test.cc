#include <cstring>
#include <memory>

#include "ops/ggml_dequantize/random_weights.h"
#include "ops/ggml_dequantize/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

std::int64_t number(const GgmlLayout& layout) { return static_cast<std::int64_t>(layout.type); }

class GgmlEmbeddingRows : public OnTarget {};

TEST_P(GgmlEmbeddingRows, EqualsDequantisedRows) {
  for (const GgmlLayout& layout : kGgmlLayouts)
    for (DType dtype : float_types())
      for (std::int64_t hidden : {1, 32, 96, 257, 576}) {
        const std::int64_t vocab = 11, tokens = 7, row_bytes = ggml_row_bytes(number(layout), hidden);
        const std::vector<unsigned char> bytes =
            reference::random_weights(layout, vocab * ggml_blocks(layout, hidden));
        Buffer w(kUInt8, {vocab, row_bytes}, is_plain(layout) ? 0 : 1);
        w.set_bytes(bytes);
        // A strided output, and ids of both widths.
        Buffer out(dtype, {tokens, hidden}, 1, {hidden + 3, 1}), narrow(kInt32, {tokens}),
            wide(kInt64, {tokens});
        const auto id = [&](std::int64_t t) { return static_cast<double>((t * 5 + 10) % vocab); };
        narrow.fill(id);
        wide.fill(id);
        for (const Buffer* ids : {&narrow, &wide}) {
          out.poison();
          ggml_embedding_rows(out, w, *ids, number(layout));
          for (std::int64_t t = 0; t < tokens; ++t) {
            const std::int64_t row = (t * 5 + 10) % vocab;
            for (std::int64_t i = 0; i < hidden; ++i) {
              const unsigned char* block =
                  bytes.data() + row * row_bytes + i / layout.block_elements * layout.block_bytes;
              const double exact =
                  reference::weight_element(layout.type, block, static_cast<int>(i % layout.block_elements))
                      .value();
              ASSERT_EQ(out.get(t * hidden + i), round_to(dtype, round_to(kFloat32, exact)))
                  << layout.name << " token " << t << " element " << i;
            }
          }
          out.expect_guards_intact("out");
        }
      }
}

TEST_P(GgmlEmbeddingRows, BadIdsLeaveTheirRows) {
  const std::vector<unsigned char> bytes = reference::random_weights(kGgmlLayouts[3], 5 * 2);
  Buffer w(kUInt8, {5, 40}), ids(kInt32, {5}), out(kFloat32, {5, 64}), good(kFloat32, {5, 64});
  w.set_bytes(bytes);
  ids.fill([](std::int64_t i) { return static_cast<double>(i); });
  ggml_embedding_rows(good, w, ids, 3);
  for (double bad : {5.0, -1.0, 2147483647.0, -2147483648.0}) {
    ids.set(3, bad);
    out.fill([](std::int64_t) { return 7.0; });
    ggml_embedding_rows(out, w, ids, 3);
    for (std::int64_t i = 0; i < 5 * 64; ++i) EXPECT_EQ(out.get(i), i / 64 == 3 ? 7.0 : good.get(i));
    expect_error([] { check(device()); },
                 {"ggml_embedding_rows: ids: " + std::to_string(static_cast<std::int64_t>(bad)) + " at 3"});
    EXPECT_NO_THROW(check(device()));
  }
}

// vllm-project/vllm#44971: offsets beyond 32 bits. Only the last row of the table is touched.
TEST_P(GgmlEmbeddingRows, TablesBeyondFourGigabytes) {
  if (device().type == DeviceType::kSimt) GTEST_SKIP() << "not run: simulated devices have 4 GB in all";
  const std::int64_t vocab = 131072, hidden = 32800, row_bytes = ggml_row_bytes(8, hidden);
  ASSERT_GT(vocab * row_bytes, std::int64_t{1} << 32);
  const std::shared_ptr<void> table(allocate(device(), vocab * row_bytes),
                                    [where = device()](void* p) { release(where, p); });
  std::vector<unsigned char> last(static_cast<std::size_t>(row_bytes));
  for (std::int64_t b = 0; b < hidden / 32; ++b) {
    from_double(last.data() + 34 * b, kFloat16, 2.0);
    std::memset(last.data() + 34 * b + 2, static_cast<int>(b % 100), 32);
  }
  copy_to_device(device(), static_cast<char*>(table.get()) + (vocab - 1) * row_bytes, last.data(), row_bytes);
  const Tensor w(table.get(), kUInt8, {vocab, row_bytes}, device());
  Buffer ids(kInt64, {1}), out(kFloat16, {1, hidden});
  ids.set(0, static_cast<double>(vocab - 1));
  ggml_embedding_rows(out, w, ids, 8);
  for (std::int64_t i = 0; i < hidden; ++i) ASSERT_EQ(out.get(i), 2.0 * static_cast<double>(i / 32 % 100));
}

MUSAIC_EVERY_TARGET(GgmlEmbeddingRows);

TEST(GgmlEmbeddingRowsBits, SameEverywhere) {
  for (const GgmlLayout& layout : kGgmlLayouts) {
    const std::vector<unsigned char> bytes = reference::random_weights(layout, 40 * ggml_blocks(layout, 600));
    Buffer w(kUInt8, {static_cast<std::int64_t>(bytes.size())}), ids(kInt64, {33});
    w.set_bytes(bytes);
    ids.fill([](std::int64_t i) { return static_cast<double>(i * 7 % 40); });
    expect_same_bytes_everywhere([&] {
      Buffer out(kBFloat16, {33, 600});
      ggml_embedding_rows(out, w, ids, number(layout));
      return out.bytes();
    });
  }
}

TEST(GgmlEmbeddingRowsErrors, NameTheArgument) {
  Buffer w(kUInt8, {40}), ids(kInt32, {3}), floats(kFloat32, {3}), out(kFloat32, {3, 64}),
      other(kFloat32, {4, 64});
  ids.fill([](std::int64_t) { return 0.0; });
  EXPECT_NO_THROW(ggml_embedding_rows(out, w, ids, 3));
  expect_error([&] { ggml_embedding_rows(out, w, ids, 2); },
               {"ggml_embedding_rows: weight: 40 bytes", "whole rows of 36 bytes (hidden_size=64 of Q4_0"});
  expect_error([&] { ggml_embedding_rows(out, w, floats, 3); }, {"ids: dtype float32"});
  expect_error([&] { ggml_embedding_rows(other, w, ids, 3); }, {"out: shape [4, 64]", "num_tokens=3"});
  expect_error([&] { ggml_embedding_rows(out, w, ids, 7777); }, {"type: 7777"});
  Buffer none(kInt32, {0}), empty(kFloat32, {0, 64}), no_table(kUInt8, {0});
  EXPECT_NO_THROW(ggml_embedding_rows(empty, w, none, 3));
  EXPECT_NO_THROW(ggml_embedding_rows(out, no_table, ids, 3));
  expect_error([] { check(device()); }, {"ggml_embedding_rows: ids: 0 at "});
}

}  // namespace
}  // namespace musaic::testing
