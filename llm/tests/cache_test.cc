#include "llm/cache.h"

#include <set>

#include "testing/testing.h"

namespace musaic::llm {
namespace {

using testing::expect_error;

Config small() {
  Config c{};
  c.num_layers = 2;
  c.num_kv_heads = 1;
  c.head_dim = 4;
  return c;
}

TEST(KvCache, SlotsAreTheRowsOwn) {
  KvCache cache(small(), 3, 4, 7);
  std::set<int64_t> seen;
  std::vector<int64_t> slots(64);
  cache.open(0, 40);
  cache.open(2, 17);
  EXPECT_TRUE(cache.can_open(32));
  EXPECT_FALSE(cache.can_open(33));
  for (const int64_t row : {0, 2, 0}) {
    const int64_t first = cache.length(row), count = row == 0 ? 20 : 17;
    EXPECT_EQ(cache.append(row, count, slots.data()), first);
    EXPECT_EQ(cache.length(row), first + count);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t slot = slots[static_cast<size_t>(i)];
      EXPECT_EQ(slot / KvCache::kPageSize, cache.pages(row)[(first + i) / KvCache::kPageSize]);
      EXPECT_EQ(slot % KvCache::kPageSize, (first + i) % KvCache::kPageSize);
      EXPECT_TRUE(seen.insert(slot).second);
    }
  }
}

TEST(KvCache, EveryAppendIsChecked) {
  KvCache cache(small(), 2, 4, 4);
  int64_t slots[64];
  expect_error([&] { cache.append(0, 1, slots); }, {"cache: row 0", "1 more tokens", "at most 0"});
  cache.open(0, 20);
  cache.append(0, 19, slots);
  expect_error([&] { cache.append(0, 2, slots); }, {"cache: row 0", "2 more tokens", "at most 1"});
  EXPECT_EQ(cache.length(0), 19);
  cache.append(0, 1, slots);
  cache.append(0, 0, slots);
  expect_error([&] { cache.append(0, 1, slots); }, {"at most 0"});
}

TEST(KvCache, PagesComeBack) {
  KvCache cache(small(), 2, 4, 4);
  cache.open(0, 64);
  expect_error([&] { cache.open(0, 1); }, {"row 0"});
  expect_error([&] { cache.open(1, 1); }, {"row 1", "1 tokens"});
  cache.close(0);
  cache.close(0);
  cache.open(1, 64);
  expect_error([&] { cache.open(0, 65); }, {"row 0", "65 tokens"});
}

}  // namespace
}  // namespace musaic::llm
