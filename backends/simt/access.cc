#include "backends/simt/access.h"

#include <link.h>

#include <string>

#include "backends/simt/find.h"
#include "backends/simt/order.h"

namespace musaic::simt {
namespace {

bool is_write(Access a) {
  return a == Access::kWrite || a == Access::kVolatileWrite || a == Access::kAtomicWrite ||
         a == Access::kAtomicUpdate;
}
bool is_read(Access a) { return !is_write(a) || a == Access::kAtomicUpdate; }
/// Volatile accesses are what flags are made of on some targets; they do not race with each other.
bool is_strong(Access a) { return a != Access::kRead && a != Access::kWrite; }

std::string verb(Access a, std::size_t bytes) {
  static constexpr const char* kNames[] = {"read",        "write",        "volatile read", "volatile write",
                                           "atomic load", "atomic store", "atomic update"};
  return std::string(kNames[static_cast<int>(a)]) + " of " + std::to_string(bytes) + " bytes";
}

/// The program's own data: tables of constants may be read, nothing of it may be written.
bool in_program(Worker& w, const void* p, bool& writable) {
  struct Search {
    ElfW(Addr) address;
    const void *start, *end;
    bool writable;
  } search{reinterpret_cast<ElfW(Addr)>(p), nullptr, nullptr, false};
  if (p >= w.range_start && p < w.range_end) {
    writable = false;
    return true;
  }
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& s = *static_cast<Search*>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          const ElfW(Addr) start = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type != PT_LOAD || s.address < start || s.address >= start + segment.p_memsz)
            continue;
          s.start = reinterpret_cast<const void*>(start);
          s.end = reinterpret_cast<const void*>(start + segment.p_memsz);
          s.writable = (segment.p_flags & PF_W) != 0;
          return 1;
        }
        return 0;
      },
      &search);
  if (search.start == nullptr) return false;
  writable = search.writable;
  if (!writable) {
    w.range_start = search.start;
    w.range_end = search.end;
  }
  return true;
}

bool synced_in_warp(const Lane& lane, Stamp s) {
  const int warp_size = lane.block->device->hardware_warp;
  if (static_cast<int>(s.thread()) / warp_size != lane.warp) return false;
  const int other = static_cast<int>(s.thread()) % warp_size;
  for (int i = 0; i < lane.sync_count; ++i) {
    const WarpSync& sync = lane.syncs[static_cast<std::size_t>(i)];
    if (s.time() < sync.time && (sync.lanes >> other & 1) != 0 && (s.reach() == 0 || sync.whole_group))
      return true;
  }
  return false;
}

/// Whether an earlier access by the lane's own block precedes the lane's next one.
bool ordered_in_block(const Lane& lane, Stamp s, bool shared) {
  if (s.reach() == 0 && s.thread() == lane.index) return true;
  if (s.reach() < 2 && synced_in_warp(lane, s)) return true;
  const Block& b = *lane.block;
  return s.time() < (shared ? b.shared_sync : b.global_sync) || is_ordered_by_flags(lane, s);
}

bool ordered(const Lane& lane, Stamp s, bool shared) {
  if (s.empty()) return true;
  const Block& b = *lane.block;
  if (s.slot() == b.slot) return ordered_in_block(lane, s, shared);
  if (shared || s.slot() <= kSharedSlot || b.slot == kSharedSlot)
    return true;  // an earlier block's, or unknown
  const std::uint64_t other = slot_info(s.slot()).work->id;
  if (other != b.work->info->id && b.work->comes_after(other)) return true;
  return is_ordered_by_flags(lane, s);
}

void report_race(const Lane& lane, const void* pc, const void* p, std::size_t bytes, Access a, Stamp other,
                 bool other_wrote, bool shared) {
  const Block& b = *lane.block;
  const std::string what = verb(a, bytes) + (other_wrote ? " that was written" : " that was read") +
                           (other.atomic() ? " atomically or as volatile by " : " by ") + who(other);
  const void* site = site_address(other.site());
  if (const char* missing = missing_fence(lane, other)) {
    found(Finding::kMissingFence, lane, pc, p, what + ": " + missing, -1, site);
  } else if (shared || other.slot() == b.slot) {
    found(shared ? Finding::kSharedRace : Finding::kGlobalRace, lane, pc, p,
          what + ": no barrier between the two", -1, site);
  } else if (slot_info(other.slot()).work->id != b.work->info->id) {
    found(Finding::kStreamOrder, lane, pc, p, what + ": no stream, event or wait orders the two", -1, site);
  } else {
    found(Finding::kGlobalRace, lane, pc, p, what + ": nothing orders the two blocks", -1, site);
  }
}

void check_races(const Lane& lane, Cell* cell, const char* p, std::size_t bytes, Access a, bool shared,
                 const void* pc) {
  Block& b = *lane.block;
  const bool write = is_write(a), read = is_read(a), strong = is_strong(a);
  const Stamp mine = Stamp::make(b.slot, b.clock, lane.index, strong, site_number(pc));
  // All but the line says whether two accesses are alike.
  constexpr std::uint64_t kAlike = ~std::uint64_t{2047};
  Stamp checked_write{}, checked_read{};
  bool reported = false;
  std::size_t unwritten = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    Cell& c = cell[i];
    const Stamp w = c.written;
    if (read && (w.empty() || (shared && w.slot() != b.slot))) ++unwritten;
    if (((w.bits ^ mine.bits) & kAlike) != 0 && w.bits != checked_write.bits) {
      checked_write = w;
      if (!(strong && w.atomic()) && !ordered(lane, w, shared) && !reported) {
        report_race(lane, pc, p + i, bytes, a, w, true, shared);
        reported = true;
      }
    }
    const Stamp r = c.read;
    if (write) {
      if (((r.bits ^ mine.bits) & kAlike) != 0 && r.bits != checked_read.bits) {
        checked_read = r;
        if (!(strong && r.atomic()) && !ordered(lane, r, shared) && !reported) {
          report_race(lane, pc, p + i, bytes, a, r, false, shared);
          reported = true;
        }
      }
      c.written = mine;
      if (a == Access::kAtomicUpdate) c.read = mine;
    } else if (((r.bits ^ mine.bits) & kAlike) != 0) {
      if (r.slot() == b.slot && !ordered_in_block(lane, r, shared)) {
        // Several threads read since the last barrier: the cell remembers how far apart they are.
        Stamp all = mine;
        const int warp_size = b.device->hardware_warp;
        const bool same_warp = static_cast<int>(r.thread()) / warp_size == lane.warp && r.reach() < 2;
        all.set_reach(same_warp ? 1 : 2);
        if (!r.atomic()) all.bits &= ~(std::uint64_t{1} << 11);
        c.read = all;
      } else if (r.empty() || r.slot() == b.slot || ordered(lane, r, shared)) {
        c.read = mine;
      }  // else: another block's read that a later write must still be ordered with
    }
  }
  // Padding of small structs may be copied unwritten, hence "all of it" for wide reads.
  if (unwritten == bytes || (unwritten > 0 && bytes <= 4))
    found(shared ? Finding::kSharedUnwritten : Finding::kGlobalUnwritten, lane, pc, p,
          verb(a, bytes) + (shared
                                ? " of shared memory that no thread of this block wrote"
                                : " of device memory that nothing ever wrote (" + describe_address(p) + ")"));
}

void check_shared(Worker&, const Lane& lane, const char* p, std::size_t bytes, Access a, const void* pc) {
  const Block& b = *lane.block;
  const auto offset = static_cast<std::size_t>(p - b.shared);
  for (const SharedRange& r : b.shared_ranges)
    if (offset >= r.offset && offset + bytes <= r.offset + r.bytes)
      return check_races(lane, b.shared_cells + offset, p, bytes, a, true, pc);
  std::string place = "shared memory";
  for (const SharedRange& r : b.shared_ranges)
    if (offset + bytes > r.offset && offset < r.offset + r.bytes + 64)
      place = std::to_string(static_cast<long>(offset) - static_cast<long>(r.offset)) + " bytes into a " +
              (r.key == nullptr ? "dynamic shared memory" : "shared variable") + " of " +
              std::to_string(r.bytes) + " bytes";
  found(Finding::kSharedBounds, lane, pc, p, verb(a, bytes) + " " + place);
}

void check_global(Worker& w, Lane& lane, const char* p, std::size_t bytes, Access a, int home,
                  const void* pc) {
  if (!is_allocated(p, bytes)) {
    found(Finding::kGlobalBounds, lane, pc, p,
          verb(a, bytes) + " outside device memory: " + describe_address(p));
    abandon(lane);
  }
  const int device = lane.block->work->info->device;
  if (home != device && !peer_allowed(device, home, p))
    found(Finding::kPeerAccess, lane, pc, p,
          verb(a, bytes) + " of memory of device " + std::to_string(home) + " by a kernel of device " +
              std::to_string(device) + " without peer access or an open handle");
  check_races(lane, cell_of(p), p, bytes, a, false, pc);
  if ((a == Access::kWrite || a == Access::kVolatileWrite) && options().store_buffers)
    before_store(w, lane, const_cast<char*>(p), bytes);
}

/// Volatile accesses are flags to some: loads that wait, stores that release what was fenced.
void follow_flag(Worker& w, Lane& lane, const char* p, std::size_t bytes, Access a, const void* pc) {
  if (a == Access::kVolatileRead) {
    if (options().store_buffers) before_coherent(w, p, bytes);
    poll(lane, p, bytes, pc);
    if (options().store_buffers) before_coherent(w, p, bytes);
    flag_read(lane, p);
    // The load itself comes after this; another worker may store in between.
    order_of(lane).recheck = p;
  } else if (a == Access::kVolatileWrite) {
    flag_written(lane, p, false);
    note_progress();
  } else if (a == Access::kWrite) {
    lane.polls = 0;
  }
}

void check_elsewhere(Worker& w, Lane& lane, const char* p, std::size_t bytes, Access a, const void* pc) {
  const auto* arguments = static_cast<const char*>(lane.block->work->launch.arguments.get());
  if (p >= arguments && p < arguments + lane.block->work->launch.argument_bytes + 64) return;
  bool writable = false;
  if (in_program(w, p, writable)) {
    if (!is_write(a)) return;
    found(Finding::kConstantWrite, lane, pc, p,
          verb(a, bytes) + (writable ? " to a variable of the host program" : " to constant memory"));
  } else {
    const bool null = reinterpret_cast<std::uintptr_t>(p) < 65536;
    found(Finding::kHostPointer, lane, pc, p,
          verb(a, bytes) + (null ? " through a null pointer" : " of memory that is not the device's"));
  }
  abandon(lane);
}

}  // namespace

void check_access(Worker& w, const void* address, std::size_t bytes, Access a, bool natural, const void* pc) {
  Lane& lane = *w.lane;
  const auto* p = static_cast<const char*>(address);
  if (p >= lane.stack->low && p < lane.stack->high) return;
  const auto* info = reinterpret_cast<const char*>(&lane.info);  // threadIdx and its like
  if (p >= info && p < info + sizeof lane.info) return;
  const InExecutor guard;
  if (natural && (reinterpret_cast<std::uintptr_t>(p) & (bytes - 1)) != 0)
    found(Finding::kMisaligned, lane, pc, p,
          verb(a, bytes) + " at an address that is not a multiple of " + std::to_string(bytes));
  const Block& b = *lane.block;
  if (p >= b.shared && p < b.shared + kSharedCapacity) {
    check_shared(w, lane, p, bytes, a, pc);
  } else if (const int home = device_of(p); home >= 0) {
    check_global(w, lane, p, bytes, a, home, pc);
  } else {
    check_elsewhere(w, lane, p, bytes, a, pc);
  }
  follow_flag(w, lane, p, bytes, a, pc);
  if (w.until_preemption == 0) return;
  w.until_preemption -= 1;
  if (w.until_preemption == 0) {
    w.until_preemption = 1 + static_cast<unsigned>(w.random.below(256));
    make_ready(lane);
    suspend(lane);
  }
}

bool check_copy(const Work& work, std::uint32_t slot, const void* address, std::size_t bytes, bool write,
                bool to_host) {
  if (bytes == 0) return true;
  const auto* p = static_cast<const char*>(address);
  if (device_of(p) < 0 || !is_allocated(p, bytes)) {
    found_in_work(Finding::kGlobalBounds, *work.info, p,
                  std::to_string(bytes) + " bytes at " + hex(p) + " are not device memory" +
                      (device_of(p) < 0 ? std::string() : ": " + describe_address(p)));
    return false;
  }
  Cell* cell = cell_of(p);
  const Stamp mine = Stamp::make(slot, 1, 0, false, 0);
  Stamp checked{};
  std::size_t unwritten = 0;
  const char* first_unwritten = nullptr;
  const auto ordered_with = [&](Stamp s) {
    return s.empty() || s.slot() <= kSharedSlot || s.slot() == slot ||
           work.comes_after(slot_info(s.slot()).work->id);
  };
  for (std::size_t i = 0; i < bytes; ++i) {
    Cell& c = cell[i];
    if (!write && c.written.empty() && unwritten++ == 0) first_unwritten = p + i;
    for (const Stamp s : {c.written, write ? c.read : Stamp{}}) {
      if (s.empty() || s.bits == checked.bits) continue;
      checked = s;
      if (!ordered_with(s))
        found_in_work(Finding::kStreamOrder, *work.info, p + i,
                      std::string(write ? "writes" : "reads") + " bytes that " + who(s) +
                          " used: no stream, event or wait orders the two",
                      site_address(s.site()));
    }
    (write ? c.written : c.read) = mine;
  }
  if (unwritten > 0 && to_host)
    found_in_work(Finding::kOutputUnwritten, *work.info, first_unwritten,
                  "the host reads " + std::to_string(unwritten) + " of " + std::to_string(bytes) +
                      " bytes that nothing ever wrote, the first at offset " +
                      std::to_string(first_unwritten - p));
  return true;
}

}  // namespace musaic::simt
