#include "backends/simt/memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "backends/simt/device.h"
#include "backends/simt/shadow.h"
#include "backends/simt/slots.h"
#include "backends/simt/stream.h"
#include "musaic/error.h"

namespace musaic::simt {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{4} << 30;  // a device
constexpr std::size_t kRedZone = 256;                      // between allocations
constexpr std::uint64_t kHandleMagic = 0x6d757361'69637468;

struct Allocation {
  std::size_t bytes;
  bool freed;
  std::uint64_t serial;
};

struct Arena {
  char* base;
  Cell* cells;                 // one a byte
  unsigned char* addressable;  // one per 8 bytes: how many of them may be used
  std::size_t used[kDevices] = {};
  std::map<const char*, Allocation> allocations;  // also those that were freed: addresses are not used again
  std::uint64_t next_serial = 1;
  bool peer[kDevices][kDevices] = {};
  std::set<std::pair<int, const char*>> opened;  // by IPC: device and allocation
  std::mutex mutex;

  Arena()
      : base(static_cast<char*>(reserve_address_space(kArenaBytes * kDevices))),
        cells(static_cast<Cell*>(reserve_address_space(kArenaBytes * kDevices * sizeof(Cell)))),
        addressable(static_cast<unsigned char*>(reserve_address_space(kArenaBytes * kDevices / 8))) {}

  std::size_t offset(const void* p) const {
    return static_cast<std::size_t>(static_cast<const char*>(p) - base);
  }

  /// The allocation that holds `p` or lies before it; end() if none.
  std::map<const char*, Allocation>::iterator at_or_before(const void* p) {
    auto next = allocations.upper_bound(static_cast<const char*>(p));
    return next == allocations.begin() ? allocations.end() : std::prev(next);
  }

  Allocation* holding(const void* p) {
    const auto it = at_or_before(p);
    if (it == allocations.end() || it->second.freed) return nullptr;
    return static_cast<const char*>(p) < it->first + it->second.bytes || p == it->first ? &it->second
                                                                                        : nullptr;
  }
};

Arena& arena() {
  static Arena& a = *new Arena;
  return a;
}

// Fixed once the arena exists; apart, so that an access reads them without a check.
char* arena_base = nullptr;
Cell* arena_cells = nullptr;
unsigned char* arena_addressable = nullptr;

void set_addressable(std::size_t offset, std::size_t bytes, bool on) {
  unsigned char* a = arena_addressable + offset / 8;
  std::memset(a, on ? 8 : 0, bytes / 8);
  if (bytes % 8 != 0) a[bytes / 8] = on ? static_cast<unsigned char>(bytes % 8) : 0;
}

void check_device(const char* where, int device) {
  if (device < 0 || device >= kDevices)
    throw Error(where, "device", std::to_string(device), "0 to " + std::to_string(kDevices - 1));
}

struct HandleContent {
  std::uint64_t magic;
  std::uint64_t serial;
  std::uint64_t offset;
};
static_assert(sizeof(HandleContent) <= sizeof(IpcHandle));

}  // namespace

void* reserve_address_space(std::size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    throw Error("simt: cannot reserve " + std::to_string(bytes >> 30) + " GiB of address space");
  return p;
}

void* allocate(std::int64_t bytes, int device) {
  check_device("simt::allocate", device);
  if (bytes < 0) throw Error("simt::allocate", "bytes", std::to_string(bytes), "0 or more");
  Arena& a = arena();
  const std::lock_guard<std::mutex> lock(a.mutex);
  arena_base = a.base;
  arena_cells = a.cells;
  arena_addressable = a.addressable;
  const auto size = static_cast<std::size_t>(bytes);
  std::size_t& used = a.used[device];
  if (size > kArenaBytes - used || kArenaBytes - used - size < 4 * kRedZone)
    throw Error(
        "simt::allocate", "bytes", std::to_string(bytes),
        "at most " + std::to_string(kArenaBytes - used) + " that are left of a simulated device's memory");
  char* p = a.base + static_cast<std::size_t>(device) * kArenaBytes + used + kRedZone;
  used += (size + kRedZone + 255) / 256 * 256;
  a.allocations[p] = {size, false, a.next_serial++};
  set_addressable(a.offset(p), size, true);
  return p;
}

void release(void* memory) {
  if (memory == nullptr) return;
  synchronize();
  Arena& a = arena();
  const std::lock_guard<std::mutex> lock(a.mutex);
  const auto it = a.allocations.find(static_cast<const char*>(memory));
  if (it == a.allocations.end() || it->second.freed)
    throw Error("simt::release", "memory",
                it == a.allocations.end() ? "an address inside or outside" : "freed",
                "the start of an allocation");
  it->second.freed = true;
  const std::size_t offset = a.offset(memory), bytes = it->second.bytes;
  set_addressable(offset, bytes, false);
  // Addresses stay distinct, pages go back.
  const std::size_t first = (offset + 4095) / 4096 * 4096, last = (offset + bytes) / 4096 * 4096;
  if (first < last) {
    madvise(a.base + first, last - first, MADV_DONTNEED);
    madvise(a.cells + first, (last - first) * sizeof(Cell), MADV_DONTNEED);
  }
}

void mark_written(const void* memory, std::int64_t bytes) {
  Cell* c = cell_of(memory);
  for (std::int64_t i = 0; i < bytes; ++i) c[i] = {Stamp::make(kHostSlot, 0, 0, false, 0), {}};
}

void mark_unwritten(const void* memory, std::int64_t bytes) {
  Cell* c = cell_of(memory);
  for (std::int64_t i = 0; i < bytes; ++i) c[i] = {};
}

void enable_peer_access(int device, int peer) {
  check_device("simt::enable_peer_access", device);
  check_device("simt::enable_peer_access", peer);
  arena().peer[device][peer] = true;
}

void disable_peer_access(int device, int peer) {
  check_device("simt::disable_peer_access", device);
  check_device("simt::disable_peer_access", peer);
  synchronize();
  arena().peer[device][peer] = false;
}

IpcHandle ipc_handle(const void* memory) {
  Arena& a = arena();
  const std::lock_guard<std::mutex> lock(a.mutex);
  const Allocation* found = device_of(memory) < 0 ? nullptr : a.holding(memory);
  if (found == nullptr) throw Error("simt::ipc_handle", "memory", "not device memory", "a living allocation");
  IpcHandle handle{};
  const HandleContent content{kHandleMagic, found->serial, a.offset(a.at_or_before(memory)->first)};
  std::memcpy(handle.bytes, &content, sizeof content);
  return handle;
}

void* ipc_open(const IpcHandle& handle, int device) {
  check_device("simt::ipc_open", device);
  HandleContent content{};
  std::memcpy(&content, handle.bytes, sizeof content);
  Arena& a = arena();
  const std::lock_guard<std::mutex> lock(a.mutex);
  if (content.magic != kHandleMagic || content.offset >= kArenaBytes * kDevices)
    throw Error("simt::ipc_open", "handle", "not one of ipc_handle()", "a handle of this process");
  const auto it = a.allocations.find(a.base + content.offset);
  if (it == a.allocations.end() || it->second.freed || it->second.serial != content.serial)
    throw Error("simt::ipc_open", "handle", "of memory that was freed", "a living allocation");
  a.opened.insert({device, it->first});
  return a.base + content.offset;
}

void ipc_close(void* memory, int device) {
  synchronize();
  Arena& a = arena();
  const std::lock_guard<std::mutex> lock(a.mutex);
  if (a.opened.erase({device, static_cast<const char*>(memory)}) == 0)
    throw Error("simt::ipc_close", "memory", "not open on device " + std::to_string(device),
                "what ipc_open() returned");
}

int device_of(const void* address) {
  const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - arena_base);
  return arena_base == nullptr || offset >= kArenaBytes * kDevices ? -1
                                                                   : static_cast<int>(offset / kArenaBytes);
}

Cell* cell_of(const void* address) { return arena_cells + (static_cast<const char*>(address) - arena_base); }

bool is_allocated(const void* address, std::size_t bytes) {
  auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - arena_base);
  while (bytes > 0) {
    const std::size_t in_granule = offset % 8, here = bytes < 8 - in_granule ? bytes : 8 - in_granule;
    if (arena_addressable[offset / 8] < in_granule + here) return false;
    offset += here;
    bytes -= here;
  }
  return true;
}

std::string describe_address(const void* address) {
  char text[160];
  Arena& a = arena();
  const std::lock_guard<std::mutex> lock(a.mutex);
  const auto* p = static_cast<const char*>(address);
  const auto before = a.at_or_before(address);
  if (before != a.allocations.end()) {
    const char* end = before->first + before->second.bytes;
    if (before->second.freed && p < end) {
      std::snprintf(text, sizeof text, "byte %td of %zu bytes that were freed", p - before->first,
                    before->second.bytes);
      return text;
    }
    const auto next = std::next(before);
    if (p >= end && (next == a.allocations.end() || p - end <= next->first - p)) {
      std::snprintf(text, sizeof text, "%td bytes after the end of an allocation of %zu bytes", p - end,
                    before->second.bytes);
      return text;
    }
    if (p < end) {
      std::snprintf(text, sizeof text, "byte %td of an allocation of %zu bytes", p - before->first,
                    before->second.bytes);
      return text;
    }
  }
  const auto next = a.allocations.upper_bound(p);
  if (next == a.allocations.end()) return "memory that was never allocated";
  std::snprintf(text, sizeof text, "%td bytes before an allocation of %zu bytes", next->first - p,
                next->second.bytes);
  return text;
}

bool peer_allowed(int device, int home, const void* address) {
  Arena& a = arena();
  if (device == home || a.peer[device][home]) return true;
  const std::lock_guard<std::mutex> lock(a.mutex);
  const auto it = a.at_or_before(address);
  return it != a.allocations.end() && a.opened.count({device, it->first}) != 0;
}

void forget_slots() {
  Arena& a = arena();
  const std::lock_guard<std::mutex> lock(a.mutex);
  for (const auto& [start, allocation] : a.allocations) {
    if (allocation.freed) continue;
    Cell* c = a.cells + a.offset(start);
    for (std::size_t i = 0; i < allocation.bytes; ++i)
      if (!c[i].written.empty() || !c[i].read.empty())
        c[i] = {c[i].written.empty() ? Stamp{} : Stamp::make(kHostSlot, 0, 0, false, 0), {}};
  }
}

}  // namespace musaic::simt
