#pragma once

#include "device/device.h"
#include "ops/moe_align/args.h"

namespace musaic::MUSAIC_TARGET {
namespace {

MUSAIC_FN std::int64_t id_at(const MoeAlignArgs& a, std::int64_t i) {
  if (a.id_bytes == 8) return static_cast<const std::int64_t*>(a.ids)[i];
  if (a.id_bytes == 4) return static_cast<const std::int32_t*>(a.ids)[i];
  if (a.ids_are_unsigned) return static_cast<const std::uint8_t*>(a.ids)[i];
  return static_cast<const std::int8_t*>(a.ids)[i];
}

/// The slot of an id, id + 1; -1: it goes nowhere. Every id that reaches memory comes through here.
MUSAIC_FN std::int64_t slot_of(const MoeAlignArgs& a, std::int64_t id) {
  const bool is_listed = id >= (a.drop_negative ? 0 : -1) && id <= a.num_slots - 2;
  return is_listed ? id + 1 : -1;
}
MUSAIC_FN bool is_bad(const MoeAlignArgs& a, std::int64_t id) {
  return slot_of(a, id) < 0 && !(a.drop_negative && id < 0);
}

MUSAIC_FN std::int64_t padded(const MoeAlignArgs& a, std::int64_t count) {
  return (count + a.block_size - 1) / a.block_size * a.block_size;
}

}  // namespace
}  // namespace musaic::MUSAIC_TARGET
