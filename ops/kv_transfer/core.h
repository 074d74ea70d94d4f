// Which bytes a piece of the transfer is, on every backend.
#pragma once

#include "device/device.h"
#include "ops/kv_transfer/args.h"

namespace musaic::MUSAIC_TARGET {

MUSAIC_FN std::int64_t kv_transfer_index(const KvTransferPool& pool, std::int64_t i) {
  if (pool.indices_are_64_bit) return static_cast<const std::int64_t*>(pool.indices)[i];
  return static_cast<const std::int32_t*>(pool.indices)[i];
}

/// Whether token i of the list, from one pool's token to the other's, is to be copied. -1 on either side is padding.
MUSAIC_FN bool kv_transfer_check(const KvTransferArgs& a, std::int64_t i, std::int64_t from, std::int64_t to,
                                 bool reports) {
  if (from == -1 || to == -1) return false;
  const bool from_fits = from >= 0 && from < a.src.num_tokens, to_fits = to >= 0 && to < a.dst.num_tokens;
  if (reports && !from_fits) raise_fault(a.src.fault, DeviceFault::kIndexOutOfRange, i, from);
  if (reports && from_fits && !to_fits) raise_fault(a.dst.fault, DeviceFault::kIndexOutOfRange, i, to);
  return from_fits && to_fits;
}

/// Piece p of a token: parts, then layers, then heads.
MUSAIC_FN char* kv_transfer_piece(const KvTransferArgs& a, const KvTransferPool& pool, std::int64_t token,
                                  std::int64_t p) {
  const auto n = static_cast<std::int32_t>(p);
  const std::int32_t head = n % a.num_heads, layers = n / a.num_heads, layer = layers % a.num_layers,
                     part = layers / a.num_layers;
  char* base = pool.tables[part] != nullptr ? reinterpret_cast<char*>(pool.tables[part][layer])
                                            : pool.bases[part] + layer * pool.layer_stride;
  if (pool.page_size == 1) return base + token * pool.page_stride + head * pool.head_stride;
  const std::int64_t page = token / pool.page_size;
  return base + page * pool.page_stride + (token - page * pool.page_size) * pool.slot_stride +
         head * pool.head_stride;
}

}  // namespace musaic::MUSAIC_TARGET
