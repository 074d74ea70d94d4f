#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "ops/kv_cache_store/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

std::vector<std::int64_t> shuffled_slots(std::int64_t tokens, std::int64_t slots) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(slots));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), rng());
  all.resize(static_cast<std::size_t>(tokens));
  return all;
}

Buffer slot_tensor(const std::vector<std::int64_t>& slots, DType dtype = kInt64) {
  Buffer b(dtype, {static_cast<std::int64_t>(slots.size())});
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::int64_t v = slots[i];
    const auto narrow = static_cast<std::int32_t>(v);
    if (dtype == kInt64)
      std::memcpy(b.element(static_cast<std::int64_t>(i)), &v, 8);
    else
      std::memcpy(b.element(static_cast<std::int64_t>(i)), &narrow, 4);
  }
  return b;
}

std::size_t volume(const Buffer& b, int from) {
  std::size_t n = 1;
  for (int d = from; d < b.tensor().ndim(); ++d) n *= static_cast<std::size_t>(b.tensor().size(d));
  return n;
}

/// The cache must hold the reference's values, rounded once; NaN equals NaN.
void expect_stored(Buffer& cache, const std::vector<double>& before, Buffer& source,
                   const std::vector<std::int64_t>& slots, const std::string& what) {
  const std::vector<double> expected =
      reference::kv_cache_store(before, source.values(), slots, volume(cache, 2));
  const DType dtype = cache.tensor().dtype();
  const std::vector<double> got = cache.values();
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double e = round_to(dtype, expected[i]);
    ASSERT_TRUE(got[i] == e || (std::isnan(got[i]) && std::isnan(e)))
        << what << ": element " << i << " is " << got[i] << ", expected " << e;
  }
  cache.expect_guards_intact(what.c_str());
}

class KvCacheStore : public OnTarget {};

TEST_P(KvCacheStore, EveryRowReachesItsSlot) {
  for (DType stored : float_types())
    for (DType source : {stored, kFloat32})
      for (std::int64_t dim : {1, 2, 3, 7, 8, 9, 64, 80, 100, 192, 1048})
        for (std::int64_t page_size : {1, 5, 16}) {
          const std::int64_t heads = uniform_int(1, 4), tokens = uniform_int(1, 20),
                             v_dim = uniform_int(1, 70), pages = (tokens + page_size - 1) / page_size + 2;
          // Strides of heads, slots and pages beyond their sizes, and bases off their alignment.
          const auto padded = [&](std::int64_t d) {
            const std::int64_t gap = uniform_int(0, 3), head = d + gap,
                               slot = heads * head + uniform_int(0, 5);
            return std::vector<std::int64_t>{page_size * slot + uniform_int(0, 9), slot, head, 1};
          };
          Buffer k(stored, {pages, page_size, heads, dim}, uniform_int(0, 7), padded(dim)),
              v(stored, {pages, page_size, heads, v_dim}, uniform_int(0, 7), padded(v_dim)),
              key(source, {tokens, heads, dim}, uniform_int(0, 7), {heads * dim + uniform_int(0, 6), dim, 1}),
              value(source, {tokens, heads, v_dim}, uniform_int(0, 7));
          const auto slots = shuffled_slots(tokens, pages * page_size);
          Buffer slot = slot_tensor(slots, page_size == 5 ? kInt32 : kInt64);
          key.fill_normal(uniform(0.1, 1000.0));
          value.fill_normal();
          const std::vector<double> k_before = k.values(), v_before = v.values();
          kv_cache_store(k, v, key, value, slot);
          const std::string what = to_string(source) + " to " + to_string(stored) + ", dim " +
                                   std::to_string(dim) + ", page size " + std::to_string(page_size);
          expect_stored(k, k_before, key, slots, "k_cache: " + what);
          expect_stored(v, v_before, value, slots, "v_cache: " + what);
        }
}

// sgl-project/sglang#36176: row sizes and strides of all alignments; the last bytes of a row were lost.
TEST_P(KvCacheStore, BytesOfRowsAndGaps) {
  for (std::int64_t bytes : {2, 4, 8, 12, 16, 24, 100, 576, 656, 1152})
    for (std::int64_t stride_bytes : {bytes, bytes + 8, std::int64_t{1048}}) {
      if (stride_bytes < bytes) continue;
      const std::int64_t n = bytes / 2, stride = stride_bytes / 2;
      Buffer k(kFloat16, {4, 1, 1, n}, 1, {stride, stride, n, 1}), v(kFloat16, {4, 1, 1, n}, 3),
          key(kFloat16, {3, 1, n}, 5, {stride, n, 1});
      for (std::int64_t i = 0; i < 3 * bytes; ++i)
        static_cast<unsigned char*>(key.element(i / 2))[i % 2] =
            static_cast<unsigned char>((i / bytes * 31 + i % bytes) % 251);
      const std::vector<std::int64_t> order = {2, 0, 3};
      const std::vector<unsigned char> before = k.bytes(), source = key.bytes();
      kv_cache_store(k, v, key, key, slot_tensor(order));
      for (Buffer* cache : {&k, &v}) {
        std::vector<unsigned char> expected = before;
        for (std::int64_t t = 0; t < 3; ++t)
          std::copy_n(source.begin() + t * bytes, bytes,
                      expected.begin() + order[static_cast<std::size_t>(t)] * bytes);
        EXPECT_EQ(cache->bytes(), expected) << bytes << " bytes, stride " << stride_bytes;
        cache->expect_guards_intact("cache");
      }
    }
}

TEST_P(KvCacheStore, CopiesKeepPayloadsAndConversionsRoundOnce) {
  for (DType dtype : float_types()) {
    Buffer k(dtype, {1, 2, 1, 5}), v(dtype, {1, 2, 1, 5}), key(dtype, {1, 1, 5});
    key.set_bytes(std::vector<unsigned char>(static_cast<std::size_t>(5 * size_bytes(dtype)), 0x7f));
    static_cast<unsigned char*>(key.element(0))[size_bytes(dtype) - 2] = 0x81;
    static_cast<unsigned char*>(key.element(3))[size_bytes(dtype) - 1] = 0xff;
    kv_cache_store(k, v, key, key, slot_tensor({1}));
    EXPECT_EQ(std::memcmp(k.element(5), key.element(0), static_cast<std::size_t>(5 * size_bytes(dtype))), 0);
  }
  for (DType dtype : float_types()) {
    if (dtype == kFloat32) continue;
    const double ulp = 2 * epsilon(dtype), inf = std::numeric_limits<double>::infinity();
    const std::vector<double> cases = {1 + ulp / 2,
                                       1 + 1.5 * ulp,
                                       1 + ulp / 2 + 0x1p-20,
                                       -inf,
                                       1e30,
                                       -0.0,
                                       smallest(dtype) * 0.5 > 0x1p-149 ? smallest(dtype) * 0.5 : 0.0,
                                       std::numeric_limits<double>::quiet_NaN()};
    Buffer k(dtype, {1, 1, 1, 8}), v(dtype, {1, 1, 1, 8}), key(kFloat32, {1, 1, 8});
    key.fill([&](std::int64_t i) { return cases[static_cast<std::size_t>(i)]; });
    kv_cache_store(k, v, key, key, slot_tensor({0}));
    for (std::int64_t i = 0; i < 8; ++i) {
      const double e = round_to(dtype, cases[static_cast<std::size_t>(i)]);
      EXPECT_TRUE(k.get(i) == e || (std::isnan(e) && std::isnan(k.get(i)))) << i << ": " << k.get(i);
    }
  }
}

// sgl-project/sglang#33816: slot -1 wrote before the cache; bounds are compared in 64 bits.
TEST_P(KvCacheStore, BadSlotsAreSkippedAndReported) {
  for (std::int64_t bad : {std::int64_t{8}, std::int64_t{-2}, std::int64_t{1} << 40,
                           (std::int64_t{1} << 32) + 3, std::numeric_limits<std::int64_t>::min()}) {
    Buffer k(kFloat32, {4, 2, 1, 3}), v(kFloat32, {4, 2, 1, 2}), key(kFloat32, {4, 1, 3}),
        value(kFloat32, {4, 1, 2});
    key.fill_normal();
    value.fill_normal();
    const std::vector<double> k_before = k.values(), v_before = v.values();
    const std::vector<std::int64_t> slots = {3, -1, bad, 0};
    kv_cache_store(k, v, key, value, slot_tensor(slots));
    expect_stored(k, k_before, key, slots, "k_cache");
    expect_stored(v, v_before, value, slots, "v_cache");
    expect_error([] { check(device()); }, {"kv_cache_store: slots: " + std::to_string(bad) +
                                           " at 2, expected an index inside its table"});
    EXPECT_NO_THROW(check(device()));
  }
  Buffer k(kFloat32, {4, 2, 1, 3}), key(kFloat32, {2, 1, 3}), v(kFloat32, {4, 2, 1, 3});
  const std::vector<unsigned char> before = k.bytes();
  kv_cache_store(k, v, key, key, slot_tensor({-1, -1}, kInt32));
  EXPECT_NO_THROW(check(device())) << "padding is no fault";
  EXPECT_EQ(k.bytes(), before);
}

// sgl-project/sglang#8915: page-first and layer-first layouts of several layers, each a view of one
// allocation.
TEST_P(KvCacheStore, LayersOfOneAllocation) {
  for (bool page_first : {false, true}) {
    Buffer cache(kFloat32, {3, 4, 2, 1, 4});
    cache.fill([](std::int64_t) { return -1.0; });
    Buffer key(kFloat32, {3, 1, 4}), other(kFloat32, {4, 2, 1, 4});
    key.fill([](std::int64_t i) { return 128.0 + static_cast<double>(i / 4); });
    const Tensor layer = page_first ? cache.view(2 * 8, {4, 2, 1, 4}, {24, 4, 4, 1})
                                    : cache.view(2 * 32, {4, 2, 1, 4}, {8, 4, 4, 1});
    kv_cache_store(layer, other, key, key, slot_tensor({1, 6, 2}));
    std::vector<double> expected(96, -1.0);
    const std::int64_t slots[] = {1, 6, 2};
    for (std::int64_t t = 0; t < 3; ++t)
      for (std::int64_t i = 0; i < 4; ++i)
        expected[static_cast<std::size_t>(page_first ? slots[t] / 2 * 24 + 16 + slots[t] % 2 * 4 + i
                                                     : 64 + slots[t] * 4 + i)] =
            128.0 + static_cast<double>(t);
    EXPECT_EQ(cache.values(), expected);
  }
}

TEST_P(KvCacheStore, KeysAndValuesInterleavedInOnePage) {
  MUSAIC_NEEDS(kBFloat16);
  Buffer both(kBFloat16, {3, 2, 4, 2, 5}), key(kBFloat16, {7, 2, 5}), value(kBFloat16, {7, 2, 5});
  both.fill([](std::int64_t) { return 9.0; });
  key.fill_normal();
  value.fill_normal();
  const Tensor k = both.view(0, {3, 4, 2, 5}, {80, 10, 5, 1}),
               v = both.view(40, {3, 4, 2, 5}, {80, 10, 5, 1});
  const auto slots = shuffled_slots(7, 12);
  kv_cache_store(k, v, key, value, slot_tensor(slots, kInt32));
  std::vector<double> expected(240, 9.0);
  for (std::size_t t = 0; t < 7; ++t)
    for (std::size_t i = 0; i < 10; ++i) {
      const auto slot = static_cast<std::size_t>(slots[t]), at = slot / 4 * 80 + slot % 4 * 10 + i;
      expected[at] = key.get(static_cast<std::int64_t>(t * 10 + i));
      expected[at + 40] = value.get(static_cast<std::int64_t>(t * 10 + i));
    }
  EXPECT_EQ(both.values(), expected);
}

TEST_P(KvCacheStore, NothingToStore) {
  Buffer k(kFloat32, {2, 2, 1, 4}), none(kFloat32, {0, 1, 4}), slots(kInt32, {0});
  Buffer v(kFloat32, {2, 2, 1, 4});
  EXPECT_NO_THROW(kv_cache_store(k, v, none, none, slots));
  Buffer no_pages(kFloat32, {0, 16, 1, 4}), no_pages2(kFloat32, {0, 16, 1, 4}), one(kFloat32, {1, 1, 4});
  one.fill_normal();
  kv_cache_store(no_pages, no_pages2, one, one, slot_tensor({0}));
  expect_error([] { check(device()); }, {"kv_cache_store: slots: 0 at 0"});
  Buffer no_size(kFloat32, {3, 0, 1, 4}), no_size2(kFloat32, {3, 0, 1, 4});
  kv_cache_store(no_size, no_size2, one, one, slot_tensor({-1}));
  EXPECT_NO_THROW(check(device()));
  Buffer flat(kFloat32, {2, 2, 1, 0}), flat_key(kFloat32, {1, 1, 0});
  EXPECT_NO_THROW(kv_cache_store(flat, v, flat_key, one, slot_tensor({3})));
}

MUSAIC_EVERY_TARGET(KvCacheStore);

TEST(KvCacheStoreBits, SameEverywhere) {
  for (DType stored : kFloatTypes) {
    Buffer key(kFloat32, {150, 3, 64}), value(kFloat32, {150, 3, 65});
    key.fill_normal(100.0);
    value.fill_normal(1e-6);
    const auto slots = shuffled_slots(150, 160);
    Buffer slot = slot_tensor(slots);
    expect_same_bytes_everywhere([&] {
      Buffer k(stored, {10, 16, 3, 64}), v(stored, {10, 16, 3, 65});
      kv_cache_store(k, v, key, value, slot);
      std::vector<unsigned char> bytes = k.bytes();
      const std::vector<unsigned char> more = v.bytes();
      bytes.insert(bytes.end(), more.begin(), more.end());
      return bytes;
    });
  }
}

TEST(KvCacheStoreErrors, NameTheArgument) {
  Buffer k(kFloat16, {4, 2, 3, 8}), v(kFloat16, {4, 2, 3, 6}), key(kFloat16, {5, 3, 8}),
      value(kFloat16, {5, 3, 6}), slots(kInt32, {5});
  Buffer bf16(kBFloat16, {5, 3, 8}), f32(kFloat32, {5, 3, 8}), heads(kFloat16, {5, 2, 8}),
      dim(kFloat16, {5, 3, 7}), tokens(kFloat16, {4, 3, 6}), slots8(kUInt8, {5}), slots6(kInt64, {6}),
      v_pages(kFloat16, {3, 2, 3, 6}), v32(kFloat32, {4, 2, 3, 6}), flat(kFloat16, {5, 24});
  const auto call = [&](const Tensor& kc, const Tensor& vc, const Tensor& a, const Tensor& b,
                        const Tensor& s) { return [=] { kv_cache_store(kc, vc, a, b, s); }; };
  expect_error(call(k, v, bf16, value, slots),
               {"kv_cache_store: key: dtype bfloat16", "float16 (from k_cache)"});
  expect_error(call(k, v, f32, value, slots), {"kv_cache_store: value: dtype float16", "float32 (from key)"});
  expect_error(call(k, v32, key, value, slots), {"kv_cache_store: v_cache: dtype float32"});
  expect_error(call(k, v, heads, value, slots), {"kv_cache_store: key: shape [5, 2, 8]", "num_kv_heads=3"});
  expect_error(call(k, v, dim, value, slots), {"kv_cache_store: key: shape [5, 3, 7]", "k_head_dim=8"});
  expect_error(call(k, v, key, tokens, slots), {"kv_cache_store: value: shape [4, 3, 6]", "num_tokens=5"});
  expect_error(call(k, v, key, value, slots8), {"kv_cache_store: slots: dtype uint8", "int32, int64"});
  expect_error(call(k, v, key, value, slots6), {"kv_cache_store: slots: shape [6]", "num_tokens=5"});
  expect_error(call(k, v_pages, key, value, slots),
               {"kv_cache_store: v_cache: shape [3, 2, 3, 6]", "num_pages=4"});
  expect_error(call(k, v, flat, value, slots), {"kv_cache_store: key: shape [5, 24]", "3 dimensions"});
  expect_error(call(k, v, key, value, Tensor()), {"kv_cache_store: slots: no tensor"});
  const Tensor columns(k.tensor().data(), kFloat16, {4, 2, 3, 4}, {48, 24, 8, 2});
  expect_error(call(columns, v, key, value, slots),
               {"kv_cache_store: k_cache: stride 2 in the last dimension"});
  const Tensor inside(k.tensor().data(), kFloat16, {5, 3, 8});
  expect_error(call(k, v, inside, value, slots), {"kv_cache_store: k_cache: memory that overlaps key"});
}

}  // namespace
}  // namespace musaic::testing
