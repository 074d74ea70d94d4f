#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "ops/kv_transfer/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

using reference::KvLayout;
using Kind = KvLayout::Kind;
using Indices = std::vector<std::int64_t>;
using Bytes = std::vector<unsigned char>;

Indices shuffled(std::int64_t count, std::int64_t of) {
  Indices all(static_cast<std::size_t>(of));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), rng());
  all.resize(static_cast<std::size_t>(count));
  return all;
}

void put(Buffer& b, std::int64_t i, std::int64_t v) {
  const auto narrow = static_cast<std::int32_t>(v);
  if (b.tensor().dtype() == kInt64)
    std::memcpy(b.element(i), &v, 8);
  else
    std::memcpy(b.element(i), &narrow, 4);
}
Buffer list_of(const Indices& v, DType dtype = kInt64) {
  Buffer b(dtype, {static_cast<std::int64_t>(v.size())});
  for (std::size_t i = 0; i < v.size(); ++i) put(b, static_cast<std::int64_t>(i), v[i]);
  return b;
}

/// One part (K or V) of a pool: a buffer a layer, or one for all.
struct Pool {
  KvLayout layout;
  std::int64_t tokens;
  std::vector<Buffer> buffers;

  Pool(KvLayout l, std::int64_t n, std::int64_t offset) : layout(l), tokens(n) {
    const bool split = l.kind == Kind::kLayerFirst;
    for (std::int64_t i = 0; i < (split ? l.layers : 1); ++i) {
      buffers.emplace_back(kUInt8, std::vector<std::int64_t>{n * l.item * (split ? 1 : l.layers)}, offset);
      Bytes bytes(static_cast<std::size_t>(buffers.back().numel()));
      for (unsigned char& b : bytes) b = static_cast<unsigned char>(uniform_int(0, 255));
      buffers.back().set_bytes(bytes);
    }
  }
  std::size_t buffer_of(std::int64_t layer) const {
    return layout.kind == Kind::kLayerFirst ? static_cast<std::size_t>(layer) : 0;
  }
  std::vector<Bytes> bytes() const {
    std::vector<Bytes> all;
    for (const Buffer& b : buffers) all.push_back(b.bytes());
    return all;
  }
  Buffer table() {
    Buffer t(kInt64, {layout.layers});
    for (std::int64_t l = 0; l < layout.layers; ++l)
      put(t, l,
          static_cast<std::int64_t>(
              reinterpret_cast<std::uintptr_t>(buffers[static_cast<std::size_t>(l)].tensor().data())));
    return t;
  }
};

/// What the destination has to hold after layers [first, last) of the listed tokens came from src.
std::vector<Bytes> expected(const Pool& src, const Pool& dst, const Indices& from, const Indices& to,
                            std::int64_t first, std::int64_t last, std::int64_t dst_layer_shift = 0) {
  const std::vector<Bytes> source = src.bytes();
  std::vector<Bytes> out = dst.bytes();
  for (std::size_t n = 0; n < from.size(); ++n) {
    if (from[n] < 0 || from[n] >= src.tokens || to[n] < 0 || to[n] >= dst.tokens) continue;
    for (std::int64_t l = first; l < last; ++l)
      for (std::int64_t i = 0; i < src.layout.item; ++i)
        out[dst.buffer_of(l - dst_layer_shift)]
           [static_cast<std::size_t>(dst.layout.offset(to[n], l - dst_layer_shift, i))] =
               source[src.buffer_of(l)][static_cast<std::size_t>(src.layout.offset(from[n], l, i))];
  }
  return out;
}

void expect_pool(const Pool& pool, const std::vector<Bytes>& want, const std::string& what) {
  const std::vector<Bytes> got = pool.bytes();
  for (std::size_t b = 0; b < got.size(); ++b) {
    ASSERT_TRUE(got[b] == want[b]) << what << ": buffer " << b << " differs first at byte "
                                   << std::mismatch(got[b].begin(), got[b].end(), want[b].begin()).first -
                                          got[b].begin();
    pool.buffers[b].expect_guards_intact(what.c_str());
  }
}

class KvTransfer : public OnTarget {};

struct Sizes {
  std::int64_t item, layers, src_tokens, dst_tokens, count;
};
const Sizes kSizes[] = {{1, 1, 5, 7, 3},   {16, 3, 8, 8, 3},      {24, 2, 20, 17, 16}, {100, 4, 9, 30, 9},
                        {576, 2, 6, 5, 4}, {1152, 1, 40, 41, 33}, {4099, 2, 3, 3, 2}};

// C42, C43: every pair of layouts with bytes that depend on part, layer, token and place; every row size and alignment.
TEST_P(KvTransfer, PerLayer) {
  for (const Sizes& s : kSizes)
    for (DType index : {kInt32, kInt64})
      for (int same_alignment = 0; same_alignment < 2; ++same_alignment) {
        const std::int64_t off = uniform_int(0, 15), off2 = same_alignment != 0 ? off : uniform_int(0, 15);
        const KvLayout one{Kind::kLayerFirst, s.item, 1};
        Pool sk(one, s.src_tokens, off), sv(one, s.src_tokens, off), dk(one, s.dst_tokens, off2),
            dv(one, s.dst_tokens, off2);
        const Indices from = shuffled(s.count, s.src_tokens), to = shuffled(s.count, s.dst_tokens);
        Buffer f = list_of(from, index), t = list_of(to, kInt64);
        const auto wk = expected(sk, dk, from, to, 0, 1), wv = expected(sv, dv, from, to, 0, 1);
        transfer_kv_per_layer(sk.buffers[0], dk.buffers[0], sv.buffers[0], dv.buffers[0], f, t, s.item,
                              uniform_int(1, 5), uniform_int(1, 32));
        expect_pool(dk, wk, "k of " + std::to_string(s.item));
        expect_pool(dv, wv, "v of " + std::to_string(s.item));
        Pool dm(one, s.dst_tokens, off);
        const auto wm = expected(sk, dm, from, to, 0, 1);
        transfer_kv_per_layer_mla(sk.buffers[0], dm.buffers[0], f, t, s.item);
        expect_pool(dm, wm, "mla");
      }
}

TEST_P(KvTransfer, PageFirst) {
  for (const Sizes& s : kSizes) {
    const KvLayout paged{Kind::kPageFirst, s.item, s.layers}, one{Kind::kLayerFirst, s.item, 1},
        all{Kind::kLayerFirst, s.item, s.layers};
    const Indices from = shuffled(s.count, s.src_tokens), to = shuffled(s.count, s.dst_tokens);
    Buffer f = list_of(from, kInt32), t = list_of(to, kInt32);
    Pool sk(paged, s.src_tokens, 3), sv(paged, s.src_tokens, 8);
    for (std::int64_t l = 0; l < s.layers; ++l) {
      Pool dk(one, s.dst_tokens, 3), dv(one, s.dst_tokens, 0), dm(one, s.dst_tokens, 1);
      const auto wk = expected(sk, dk, from, to, l, l + 1, l), wv = expected(sv, dv, from, to, l, l + 1, l),
                 wm = expected(sv, dm, from, to, l, l + 1, l);
      transfer_kv_per_layer_pf_lf(sk.buffers[0], dk.buffers[0], sv.buffers[0], dv.buffers[0], f, t, l, s.item,
                                  s.item * s.layers);
      transfer_kv_per_layer_mla_pf_lf(sv.buffers[0], dm.buffers[0], f, t, l, s.item, s.item * s.layers);
      expect_pool(dk, wk, "k");
      expect_pool(dv, wv, "v");
      expect_pool(dm, wm, "mla");
    }
    Pool lk(all, s.src_tokens, 0), lv(all, s.src_tokens, 2), pk(paged, s.dst_tokens, 0),
        pv(paged, s.dst_tokens, 5), pm(paged, s.dst_tokens, 0);
    const auto wk = expected(lk, pk, from, to, 0, s.layers), wv = expected(lv, pv, from, to, 0, s.layers),
               wm = expected(lv, pm, from, to, 0, s.layers);
    Buffer tk = lk.table(), tv = lv.table();
    transfer_kv_all_layer_lf_pf(tk, pk.buffers[0], tv, pv.buffers[0], f, t, s.item, s.item * s.layers,
                                s.layers);
    transfer_kv_all_layer_mla_lf_pf(tv, pm.buffers[0], f, t, s.item, s.item * s.layers, s.layers, 7, 3,
                                    s.src_tokens);
    expect_pool(pk, wk, "k to pages");
    expect_pool(pv, wv, "v to pages");
    expect_pool(pm, wm, "mla to pages");
  }
}

TEST_P(KvTransfer, AllLayers) {
  for (const Sizes& s : kSizes) {
    const KvLayout all{Kind::kLayerFirst, s.item, s.layers};
    const Indices from = shuffled(s.count, s.src_tokens), to = shuffled(s.count, s.dst_tokens);
    Buffer f = list_of(from), t = list_of(to);
    Pool sk(all, s.src_tokens, 0), sv(all, s.src_tokens, 9), dk(all, s.dst_tokens, 0),
        dv(all, s.dst_tokens, 1), dm(all, s.dst_tokens, 4);
    const auto wk = expected(sk, dk, from, to, 0, s.layers), wv = expected(sv, dv, from, to, 0, s.layers),
               wm = expected(sk, dm, from, to, 0, s.layers);
    Buffer a = sk.table(), b = dk.table(), c = sv.table(), d = dv.table(), e = dm.table();
    transfer_kv_all_layer(a, b, c, d, f, t, s.item, s.layers, 2, 32, s.src_tokens, s.dst_tokens);
    transfer_kv_all_layer_mla(a, e, f, t, s.item, s.layers);
    expect_pool(dk, wk, "k");
    expect_pool(dv, wv, "v");
    expect_pool(dm, wm, "mla");
  }
}

TEST_P(KvTransfer, PageHead) {
  for (const auto& [item, heads, page] : std::vector<std::array<std::int64_t, 3>>{
           {64, 4, 4}, {48, 3, 5}, {7, 7, 2}, {256, 8, 16}, {30, 1, 3}}) {
    const std::int64_t layers = 3, tokens = 3 * page, other = 2 * page + 1, count = page + 1;
    const KvLayout paged{Kind::kPageHead, item, layers, page, heads}, one{Kind::kLayerFirst, item, 1},
        all{Kind::kLayerFirst, item, layers};
    const Indices in_pages = shuffled(count, tokens), in_layers = shuffled(count, other);
    Buffer p = list_of(in_pages), l = list_of(in_layers);
    Pool sk(paged, tokens, 0), sv(paged, tokens, 6);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      Pool dk(one, other, 0), dv(one, other, 1);
      const auto wk = expected(sk, dk, in_pages, in_layers, layer, layer + 1, layer),
                 wv = expected(sv, dv, in_pages, in_layers, layer, layer + 1, layer);
      transfer_kv_per_layer_ph_lf(sk.buffers[0], dk.buffers[0], sv.buffers[0], dv.buffers[0], p, l, layer,
                                  item, item * layers, page, heads);
      expect_pool(dk, wk, "k");
      expect_pool(dv, wv, "v");
    }
    Pool lk(all, other, 0), lv(all, other, 3), pk(paged, tokens, 0), pv(paged, tokens, 0);
    const auto wk = expected(lk, pk, in_layers, in_pages, 0, layers),
               wv = expected(lv, pv, in_layers, in_pages, 0, layers);
    Buffer tk = lk.table(), tv = lv.table();
    transfer_kv_all_layer_lf_ph(tk, pk.buffers[0], tv, pv.buffers[0], l, p, item, item * layers, layers, page,
                                heads);
    expect_pool(pk, wk, "k to pages");
    expect_pool(pv, wv, "v to pages");
  }
}

// C42 (sgl-project/sglang#8915), its numbers: the layer number was dropped and only layer 0 was right.
TEST_P(KvTransfer, C42LayerTwoOfThree) {
  Buffer src(kUInt8, {8, 3, 16}), dst(kUInt8, {8, 16});
  src.fill([](std::int64_t i) { return static_cast<double>(64 * (i / 16 % 3) + i / 48); });
  dst.fill([](std::int64_t) { return 7.0; });
  Buffer from = list_of({5, 0, 3}), to = list_of({1, 6, 2});
  transfer_kv_per_layer_mla_pf_lf(src, dst, from, to, 2, 16, 48);
  for (std::int64_t i = 0; i < 128; ++i)
    EXPECT_EQ(dst.get(i), i / 16 == 1 ? 133 : i / 16 == 6 ? 128 : i / 16 == 2 ? 131 : 7) << i;
}

// C43 (sgl-project/sglang#36176): row sizes against row strides.
TEST_P(KvTransfer, C43RowSizesAndStrides) {
  for (std::int64_t row : {1, 2, 4, 8, 12, 16, 24, 100, 576, 656, 1152})
    for (std::int64_t stride : {row, row + 8, std::int64_t{1160}}) {
      Buffer src(kUInt8, {3, row}, 0, {stride, 1}), dst(kUInt8, {4, row}, 1, {stride + 1, 1});
      src.fill([&](std::int64_t i) { return static_cast<double>((i / row * 31 + i % row) % 251); });
      dst.fill([](std::int64_t) { return 255.0; });
      transfer_kv_per_layer_mla(src, dst, list_of({0, 1, 2}), list_of({3, 0, 2}), row);
      const std::int64_t source[] = {1, -1, 2, 0};
      for (std::int64_t i = 0; i < 4 * row; ++i) {
        const std::int64_t s = source[i / row];
        ASSERT_EQ(dst.get(i), s < 0 ? 255 : static_cast<double>((s * 31 + i % row) % 251)) << row << ' ' << i;
      }
      dst.expect_guards_intact("dst");
    }
}

// C44 (sgl-project/sglang#33816): indices outside the pool, on either side, compared in 64 bits.
TEST_P(KvTransfer, C44BadIndicesAreSkippedAndReported) {
  const KvLayout one{Kind::kLayerFirst, 24, 1};
  for (std::int64_t bad : {std::int64_t{8}, std::int64_t{-2}, std::int64_t{1} << 40,
                           (std::int64_t{1} << 32) + 3, std::numeric_limits<std::int64_t>::min()})
    for (bool source_is_bad : {true, false}) {
      Pool src(one, 8, 0), dst(one, 8, 0);
      const Indices good = {3, 1, 0, 5}, bads = {2, -1, bad, 7};
      const Indices &from = source_is_bad ? bads : good, &to = source_is_bad ? good : bads;
      const auto want = expected(src, dst, from, to, 0, 1);
      transfer_kv_per_layer_mla(src.buffers[0], dst.buffers[0], list_of(from), list_of(to), 24);
      expect_pool(dst, want, "dst");
      expect_error([] { check(device()); },
                   {std::string("transfer_kv_per_layer_mla: ") + (source_is_bad ? "src" : "dst") +
                    "_indices: " + std::to_string(bad) + " at 2"});
      EXPECT_NO_THROW(check(device()));
      if (source_is_bad) continue;
      Buffer s = src.table(), d = dst.table();
      transfer_kv_all_layer_mla(s, d, list_of(from), list_of(to), 24, 1, 2, 32, 8, 8);
      expect_error([] { check(device()); }, {"transfer_kv_all_layer_mla: dst_indices"});
    }
}

// Host lists, longer than one launch takes; a fault's place is that of the whole list.
TEST_P(KvTransfer, IndicesInHostMemory) {
  const KvLayout one{Kind::kLayerFirst, 12, 1};
  Pool src(one, 400, 0), dst(one, 400, 4);
  Indices from = shuffled(371, 400), to = shuffled(371, 400);
  from[333] = 400;
  std::vector<std::int32_t> narrow(to.begin(), to.end());
  const auto want = expected(src, dst, from, to, 0, 1);
  transfer_kv_per_layer_mla(src.buffers[0], dst.buffers[0], Tensor(from.data(), kInt64, {371}),
                            Tensor(narrow.data(), kInt32, {371}), 12);
  from.assign(371, 0);  // read before the call returned
  expect_pool(dst, want, "dst");
  expect_error([] { check(device()); }, {"src_indices: 400 at 333"});
}

TEST_P(KvTransfer, NothingToCopy) {
  Buffer src(kUInt8, {8}), dst(kUInt8, {8}), none(kInt64, {0}), empty(kUInt8, {0}), one = list_of({0});
  EXPECT_NO_THROW(transfer_kv_per_layer(src, dst, src, dst, none, none, 8));
  EXPECT_NO_THROW(transfer_kv_per_layer_mla(empty, empty, none, none, 8));
  transfer_kv_per_layer_mla(empty, empty, one, one, 8);
  expect_error([] { check(device()); }, {"src_indices: 0 at 0"});
  transfer_kv_per_layer_mla(src, dst, list_of({-1}), list_of({0}), 8);
  EXPECT_NO_THROW(check(device()));
}

TEST_P(KvTransfer, Direct) {
  const std::int64_t page = 4, layers = 3, pages = 5, item = 10;
  for (std::size_t parts : {std::size_t{1}, std::size_t{2}}) {
    const KvLayout all{Kind::kLayerFirst, item, layers};
    Pool src(all, pages * page, 1), dst(all, pages * page, 3);
    const auto tensors = [&](Pool& p) {
      std::vector<Tensor> v;
      for (Buffer& b : p.buffers) {
        const Tensor t = b.tensor();
        v.push_back(Tensor(t.data(), kUInt8, {pages * page, item}, t.device()));
      }
      return v;
    };
    Indices from = {4, 5, 6, 7, 1, 0, 12, 13}, to = {0, 1, 2, 9, 10, 11, 13, 14};
    const auto want = expected(src, dst, from, to, 0, layers);
    transfer_kv_direct(tensors(src), tensors(dst), list_of(from), list_of(to), page);
    expect_pool(dst, want, "direct");

    // [pages, layers, page_size, item]
    std::vector<Buffer> paged, flat;
    for (std::size_t p = 0; p < parts; ++p) {
      paged.emplace_back(kUInt8, std::vector<std::int64_t>{pages, layers, page, item});
      flat.emplace_back(kUInt8, std::vector<std::int64_t>{pages * page, item});
      paged[p].fill([](std::int64_t) { return static_cast<double>(uniform_int(0, 255)); });
      flat[p].fill([](std::int64_t) { return 1.0; });
    }
    const Indices first = {8, 9, 10, 11, 16, 17, 18, 19}, token = {3, 4, 5, 6, 12, 13, 14, 15};
    std::vector<Tensor> ps, fs;
    for (std::size_t p = 0; p < parts; ++p) {
      ps.push_back(paged[p].tensor());
      fs.push_back(flat[p].tensor());
    }
    transfer_kv_per_layer_direct_pf_lf(ps, fs, list_of(first), list_of(token), 1, page);
    for (std::size_t p = 0; p < parts; ++p)
      for (std::int64_t t = 0; t < pages * page; ++t)
        for (std::int64_t i = 0; i < item; ++i) {
          const auto at = std::find(token.begin(), token.end(), t);
          double e = 1.0;
          if (at != token.end()) {
            const std::int64_t f = first[static_cast<std::size_t>(at - token.begin())];
            e = paged[p].get(((f / page * layers + 1) * page + f % page) * item + i);
          }
          ASSERT_EQ(flat[p].get(t * item + i), e) << t;
        }
    ps.clear();
    for (std::size_t p = 0; p < parts; ++p) ps.push_back(paged[p].tensor());
    std::vector<Tensor> ls;
    for (std::size_t p = 0; p < parts; ++p)
      for (const Tensor& t : tensors(src)) ls.push_back(t);
    transfer_kv_all_layer_direct_lf_pf(ls, ps, list_of(token), list_of(first), page);
    for (std::size_t p = 0; p < parts; ++p)
      for (std::size_t n = 0; n < first.size(); ++n)
        for (std::int64_t l = 0; l < layers; ++l)
          for (std::int64_t i = 0; i < item; ++i)
            ASSERT_EQ(paged[p].get(((first[n] / page * layers + l) * page + first[n] % page) * item + i),
                      src.buffers[static_cast<std::size_t>(l)].get(token[n] * item + i));
    // Nothing is written where an index is outside.
    const auto before = dst.bytes();
    expect_error(
        [&] { transfer_kv_direct(tensors(src), tensors(dst), list_of({0, 20}), list_of({0, 1}), 1); },
        {"transfer_kv_direct: src_indices: 20 at 1"});
    expect_error([&] { transfer_kv_per_layer_direct_pf_lf(ps, fs, list_of(first), list_of(token), 3, page); },
                 {"layer_id: 3"});
    expect_error([&] { transfer_kv_direct(tensors(src), tensors(dst), list_of({0}), list_of({0}), 2); },
                 {"a multiple of page_size=2"});
    expect_pool(dst, before, "refused");
  }
}

// Pinned host memory on one side, by the device's copies.
TEST_P(KvTransfer, DirectFromHostMemory) {
  std::vector<unsigned char> host(64);
  std::iota(host.begin(), host.end(), static_cast<unsigned char>(0));
  Buffer pool(kUInt8, {8, 8});
  pool.fill([](std::int64_t) { return 200.0; });
  transfer_kv_direct({Tensor(host.data(), kUInt8, {8, 8})}, {pool.tensor()}, list_of({1, 2, 7}),
                     list_of({4, 5, 0}), 1);
  for (std::int64_t i = 0; i < 64; ++i)
    EXPECT_EQ(pool.get(i), i < 8 ? 56 + i : i >= 32 && i < 48 ? i - 24 : 200) << i;
}

MUSAIC_EVERY_TARGET(KvTransfer);

TEST(KvTransferErrors, NameTheArgument) {
  Buffer pool(kUInt8, {64}), one = list_of({0}), two = list_of({0, 1}), floats(kFloat32, {1}),
                             table(kInt64, {2});
  const auto mla = [&](std::int64_t item, std::int64_t quota, std::int64_t warps) {
    return [&, item, quota, warps] { transfer_kv_per_layer_mla(pool, pool, one, one, item, quota, warps); };
  };
  expect_error(mla(0, 2, 32), {"transfer_kv_per_layer_mla: item_size: 0"});
  expect_error(mla(8, 0, 32), {"block_quota: 0"});
  expect_error(mla(8, 2, 33), {"num_warps_per_block: 33", "1 to 32"});
  expect_error([&] { transfer_kv_per_layer_mla(pool, pool, one, two, 8); },
               {"dst_indices: shape [2]", "num_tokens=1"});
  expect_error([&] { transfer_kv_per_layer_mla(pool, pool, floats, one, 8); },
               {"src_indices: dtype float32"});
  expect_error([&] { transfer_kv_per_layer_mla(Tensor(), pool, one, one, 8); }, {"src: no tensor"});
  expect_error([&] { transfer_kv_per_layer_mla_pf_lf(pool, pool, one, one, 4, 8, 32); },
               {"layer_id: 4", "0 to 3"});
  expect_error([&] { transfer_kv_all_layer_mla(table, table, one, one, 8, 3); },
               {"src_layers: shape [2]", "num_layers=3"});
  expect_error([&] { transfer_kv_per_layer_ph_lf(pool, pool, pool, pool, one, one, 0, 8, 16, 2, 3); },
               {"head_num: 3", "a divisor of item_size=8"});
}

}  // namespace
}  // namespace musaic::testing
