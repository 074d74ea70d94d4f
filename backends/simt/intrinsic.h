// What kernels call, without the vendors' spellings (kernel.h has those).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/simt/device.h"

#if defined(__clang__)
#define MUSAIC_SIMT_UNCHECKED __attribute__((noinline, disable_sanitizer_instrumentation))
#define MUSAIC_SIMT_COLUMN __builtin_COLUMN()
#else
#define MUSAIC_SIMT_UNCHECKED __attribute__((noinline, no_sanitize_thread))
#define MUSAIC_SIMT_COLUMN 0
#endif

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

namespace musaic::simt {

struct ThreadInfo {
  uint3 thread_index, block_index;
  dim3 block_extent, grid_extent;
  int warp_size;
};
/// The running thread. Its answer never changes within one thread, so the compiler may keep it.
__attribute__((const)) const ThreadInfo& self();

/// Where a barrier or an exchange stands in the source: threads that meet have to agree on it.
struct Site {
  const char* file;
  int line;
  int column;
};
constexpr Site site(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                    int column = MUSAIC_SIMT_COLUMN) {
  return {file, line, column};
}
#define MUSAIC_SIMT_SITE \
  const char *file_ = __builtin_FILE(), int line_ = __builtin_LINE(), int column_ = MUSAIC_SIMT_COLUMN

enum class BarrierKind : std::uint8_t { kFull, kSharedOnly, kOr, kAnd, kCount };
int barrier(BarrierKind kind, int predicate, Site where);

enum class ExchangeOp : std::uint8_t { kIndex, kXor, kUp, kDown, kBallot, kAny, kAll, kSync, kActive };
/// `value` is replaced by what the exchange delivers. Every mask bit is a lane of the hardware warp; targets
/// with masks narrower than the warp ignore them.
void exchange(ExchangeOp op, std::uint64_t mask, void* value, unsigned bytes, int argument, int width,
              Site where);
/// All lanes of the target's mask.
inline constexpr std::uint64_t kEveryLane = ~std::uint64_t{0};

enum class Scope : std::uint8_t { kBlock, kDevice, kSystem };
void fence(Scope scope);

enum class AtomicKind : std::uint8_t { kLoad, kStore, kUpdate };
/// Before an atomic operation: checks the address and who else used it, lets others run if the value is the
/// one that was seen before.
void before_atomic(const void* address, unsigned bytes, AtomicKind kind, const void* return_address);
/// After one that read: the thread learns what the writers of the value released.
void after_atomic_read(const void* address);

/// Lets other threads run; in every loop that waits for another thread. (Atomic and volatile loads that see
/// the same value again do this by themselves.)
void spin_pause();
/// Ends the kernel with a finding.
[[noreturn]] void trap(const char* message, Site where = site());
/// To be called by code that needs a number format which a target may lack.
void require_feature(Feature feature);
/// The kernel's own bound on threads in a block.
void check_launch_bounds(int max_threads);

/// Constant memory of a unit of source; always true.
bool count_constant(const char* unit, std::size_t bytes);
std::int64_t constant_bytes_of(const char* unit);

void* shared_variable(const void* key, std::size_t bytes, std::size_t alignment);
void* dynamic_shared();

template <class Tag>
inline char shared_key{};
/// One variable for all threads of a block; the type of the lambda tells the variables apart.
template <class T, class Tag>
inline T& shared_variable_of(Tag) {
  return *static_cast<T*>(shared_variable(&shared_key<Tag>, sizeof(T), alignof(T)));
}

}  // namespace musaic::simt
