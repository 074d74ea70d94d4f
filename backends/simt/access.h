// The check of every access that a kernel makes to memory. Internal.
#pragma once

#include <cstddef>

#include "backends/simt/block.h"
#include "backends/simt/worker.h"

namespace musaic::simt {

enum class Access { kRead, kWrite, kVolatileRead, kVolatileWrite, kAtomicRead, kAtomicWrite, kAtomicUpdate };

/// \param natural  the access has to be a multiple of its size
void check_access(Worker& worker, const void* address, std::size_t bytes, Access access, bool natural,
                  const void* return_address);

/// A copy or fill in stream order reads or writes device memory. Returns false if it must not be done.
bool check_copy(const Work& work, std::uint32_t slot, const void* address, std::size_t bytes, bool write,
                bool to_host);

}  // namespace musaic::simt
