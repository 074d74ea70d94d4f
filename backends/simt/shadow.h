// The executor's own view of memory: who wrote and who read each byte last. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace musaic::simt {

/// Who touched a byte, when, and from which line. `slot` names a block's run (see slots.h), `time` counts
/// that block's synchronisations.
struct Stamp {
  static constexpr int kSlotBits = 20, kTimeBits = 20, kThreadBits = 10, kReachBits = 2, kSiteBits = 11;
  static constexpr std::uint32_t kMaxTime = (1u << kTimeBits) - 1;

  std::uint64_t bits = 0;

  static Stamp make(std::uint32_t slot, std::uint32_t time, std::uint32_t thread, bool atomic,
                    std::uint32_t site) {
    return {static_cast<std::uint64_t>(slot) << 44 | static_cast<std::uint64_t>(time) << 24 |
            static_cast<std::uint64_t>(thread) << 14 | static_cast<std::uint64_t>(atomic) << 11 | site};
  }
  bool empty() const { return bits == 0; }
  std::uint32_t slot() const { return static_cast<std::uint32_t>(bits >> 44); }
  std::uint32_t time() const { return static_cast<std::uint32_t>(bits >> 24) & kMaxTime; }
  std::uint32_t thread() const { return static_cast<std::uint32_t>(bits >> 14) & 1023; }
  /// Of readers: 0 this thread alone, 1 several of its warp, 2 several of its block.
  std::uint32_t reach() const { return static_cast<std::uint32_t>(bits >> 12) & 3; }
  void set_reach(std::uint32_t reach) {
    bits = (bits & ~(std::uint64_t{3} << 12)) | std::uint64_t{reach} << 12;
  }
  bool atomic() const { return (bits >> 11 & 1) != 0; }
  std::uint32_t site() const { return static_cast<std::uint32_t>(bits) & 2047; }
};
static_assert(Stamp::kSlotBits + Stamp::kTimeBits + Stamp::kThreadBits + Stamp::kReachBits + 1 +
                  Stamp::kSiteBits ==
              64);

struct Cell {
  Stamp written, read;
};

/// The device that an address belongs to, or -1.
int device_of(const void* address);
/// The cell of a byte of device memory.
Cell* cell_of(const void* address);
/// Whether all bytes belong to one living allocation.
bool is_allocated(const void* address, std::size_t bytes);
/// "3 bytes after the 400 bytes allocated at 0x..." for a report.
std::string describe_address(const void* address);
bool peer_allowed(int device, int home, const void* address);

/// Memory that the executor reserves without using it.
void* reserve_address_space(std::size_t bytes);
/// Turns every stamp into one of the host, so that slots can start anew. No kernel may run.
void forget_slots();

}  // namespace musaic::simt
