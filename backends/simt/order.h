// Fences and flags: who may rely on whose writes. Internal.
#pragma once

#include "backends/simt/block.h"

namespace musaic::simt {

LaneOrder& order_of(Lane& lane);
/// A flag's store or update by the lane.
void flag_written(Lane& lane, const void* flag, bool update);
/// A flag's load by the lane; what it learns takes effect with a fence.
void flag_read(Lane& lane, const void* flag);
/// All lanes of the block met at a full barrier.
void share_order(Block& block);
/// Whether the lane's flags tell it of the access: with the fences that it and the writer used.
bool is_ordered_by_flags(const Lane& lane, Stamp stamp);
/// Whether it would have, with all fences in place; says which side lacks one.
const char* missing_fence(const Lane& lane, Stamp stamp);
/// Flags mean nothing once no kernel runs.
void forget_flags();

}  // namespace musaic::simt
