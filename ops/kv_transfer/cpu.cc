#include "backends/cpu/launch.h"
#include "ops/kv_transfer/args.h"
#include "ops/kv_transfer/core.h"

namespace musaic::MUSAIC_TARGET {
namespace {

void transfer(const KvTransferArgs& a) {
  constexpr std::int64_t kBytesPerThread = 262144;
  const std::int64_t pieces = std::int64_t{a.num_parts} * a.num_layers * a.num_heads,
                     token_bytes = pieces * a.piece_bytes;
  auto body = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t from = kv_transfer_index(a.src, t), to = kv_transfer_index(a.dst, t);
      if (!kv_transfer_check(a, t, from, to, true)) continue;
      for (std::int64_t p = 0; p < pieces; ++p)
        std::memcpy(kv_transfer_piece(a, a.dst, to, p), kv_transfer_piece(a, a.src, from, p),
                    static_cast<std::size_t>(a.piece_bytes));
    }
  };
  // A block of the quota is a thread here.
  const std::int64_t share = (a.num_tokens + a.block_quota - 1) / a.block_quota,
                     worth = 1 + kBytesPerThread / (token_bytes + 1);
  cpu::parallel(a.num_tokens, share > worth ? share : worth, body);
}

}  // namespace

#define MUSAIC_KV_TRANSFER(name) \
  void name(const KvTransferArgs& a, Stream) { transfer(a); }
#include "ops/kv_transfer/names.inc"
#undef MUSAIC_KV_TRANSFER

}  // namespace musaic::MUSAIC_TARGET
