// How the checks make their findings. Internal.
#pragma once

#include <string>

#include "backends/simt/block.h"
#include "backends/simt/report.h"

namespace musaic::simt {

/// A finding of the running lane at a line of its kernel. `other` names the access that it collides with.
void found(Finding finding, const Lane& lane, const void* return_address, const void* address,
           std::string message, int at_lane = -1, const void* other_address = nullptr);
/// A finding about a block, at a place in the source if one is given.
void found_at(Finding finding, const Work& work, Index3 block, Index3 thread, Site site, std::string message,
              int at_lane = -1);
/// A finding about work as a whole: launches, copies.
void found_in_work(Finding finding, const WorkInfo& work, const void* address, std::string message,
                   const void* other_address = nullptr);

/// A small number for a return address, for stamps; 0 when there are too many of them.
std::uint32_t site_number(const void* return_address);
const void* site_address(std::uint32_t number);

/// "thread (3, 0, 0) of block (1, 0, 0) of kernel k" for the author of a stamp.
std::string who(Stamp stamp);
std::string text(Index3 index);
std::string hex(const void* address);

}  // namespace musaic::simt
