#include "backends/simt/store_buffer.h"

#include <algorithm>
#include <cstring>

#include "backends/simt/device.h"
#include "backends/simt/worker.h"

namespace musaic::simt {
namespace {

// More pending stores than this, and the oldest arrives: hardware holds only so many.
constexpr std::size_t kMaxPending = 64, kMaxStale = 32;

/// One worker runs when stores are buffered, so this state has one user.
struct Buffers {
  std::vector<PendingStore> device[kDevices];  // seen by their own device, by no other
  std::vector<PendingStore> ended;             // of blocks that ended, seen by nobody yet
};
Buffers buffers;

template <class A, class B>
bool overlap(const A& a, const B& b) {
  return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
}
struct Range {
  char* address;
  std::size_t bytes;
};

template <class E>
void swap_bytes(E& e) {
  std::uint8_t now[16];
  std::memcpy(now, e.address, e.bytes);
  std::memcpy(e.address, e.other, e.bytes);
  std::memcpy(e.other, now, e.bytes);
}

void put_in_force(Block& b) {
  for (PendingStore& e : buffers.device[b.stores.device]) swap_bytes(e);
  for (PendingStore& e : b.stores.pending) swap_bytes(e);
  for (StaleBytes& e : b.stores.stale) swap_bytes(e);
}
void take_back(Block& b) {
  for (auto e = b.stores.stale.rbegin(); e != b.stores.stale.rend(); ++e) swap_bytes(*e);
  for (auto e = b.stores.pending.rbegin(); e != b.stores.pending.rend(); ++e) swap_bytes(*e);
  auto& device = buffers.device[b.stores.device];
  for (auto e = device.rbegin(); e != device.rend(); ++e) swap_bytes(*e);
}

/// A store arrives; other blocks that run may go on seeing the old bytes. With the store in force, memory has
/// the new bytes; otherwise they are written now.
void arrive(Worker& w, PendingStore& e, bool in_force) {
  std::uint8_t old[16];
  std::memcpy(old, in_force ? reinterpret_cast<char*>(e.other) : e.address, e.bytes);
  if (!in_force) std::memcpy(e.address, e.other, e.bytes);
  for (auto& other : w.resident) {
    StoreBuffer& s = other->stores;
    if (other->slot == e.slot || other.get() == w.applied || s.stale.size() >= kMaxStale ||
        !w.random.one_in(2))
      continue;
    const auto overlaps = [&](const auto& x) { return overlap(x, e); };
    if (std::any_of(s.stale.begin(), s.stale.end(), overlaps) ||
        std::any_of(s.pending.begin(), s.pending.end(), overlaps))
      continue;
    StaleBytes stale{e.address, e.bytes, e.work->info->device, {}};
    std::memcpy(stale.other, old, e.bytes);
    s.stale.push_back(stale);
  }
  note_progress();
}

/// Entry i of a list arrives, and with it the earlier ones that it overlaps. Returns how many left the list.
std::size_t arrive_from(Worker& w, std::vector<PendingStore>& list, std::size_t i, bool in_force) {
  std::size_t gone = 0;
  for (std::size_t k = 0; k + gone < i;) {
    if (overlap(list[k], list[i - gone])) {
      PendingStore e = list[k];
      // What lies above keeps the bytes that it found: those of this store, now everyone's.
      arrive(w, e, in_force);
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(k));
      ++gone;
    } else {
      ++k;
    }
  }
  PendingStore e = list[i - gone];
  arrive(w, e, in_force);
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(i - gone));
  return gone + 1;
}

template <class P>
void arrive_where(Worker& w, std::vector<PendingStore>& list, bool in_force, P wanted) {
  for (std::size_t i = 0; i < list.size();) {
    if (!wanted(list[i])) {
      ++i;
      continue;
    }
    const std::size_t gone = arrive_from(w, list, i, in_force);
    i = i + 1 >= gone ? i + 1 - gone : 0;
  }
}

/// Some stores arrive by themselves, in any order but that of one address.
void some_arrive(Worker& w, Block* left) {
  const auto lucky = [&](const PendingStore&) { return w.random.one_in(8); };
  for (auto& list : buffers.device) arrive_where(w, list, false, lucky);
  arrive_where(w, buffers.ended, false, lucky);
  if (left == nullptr) return;
  auto& pending = left->stores.pending;
  arrive_where(w, pending, false, [&](const PendingStore& e) {
    for (const auto& below : buffers.device[left->stores.device])
      if (overlap(below, e)) return false;
    return w.random.one_in(8);
  });
}

}  // namespace

void apply_view(Worker& w, Block* next) {
  if (w.applied == next && next != nullptr) return;
  Block* left = w.applied;
  if (left != nullptr) take_back(*left);
  w.applied = nullptr;
  some_arrive(w, left);
  if (next != nullptr && (!next->stores.empty() || !buffers.device[next->stores.device].empty()))
    put_in_force(*next);
  w.applied = next;
}

void before_store(Worker& w, Lane& lane, void* address, std::size_t bytes) {
  Block& b = *lane.block;
  auto* p = static_cast<char*>(address);
  for (std::size_t done = 0; done < bytes; done += 16) {
    PendingStore e{p + done,   static_cast<std::uint8_t>(std::min<std::size_t>(16, bytes - done)),
                   lane.index, b.clock,
                   b.slot,     b.work,
                   {}};
    auto& pending = b.stores.pending;
    bool merged = false;
    for (PendingStore& old : pending)
      if (old.address == e.address && old.bytes == e.bytes) {
        old.thread = e.thread;
        old.time = e.time;
        merged = true;
      }
    if (merged) continue;
    arrive_where(w, pending, true, [&](const PendingStore& old) { return overlap(old, e); });
    arrive_where(w, buffers.device[b.stores.device], true,
                 [&](const PendingStore& old) { return overlap(old, e); });
    auto& stale = b.stores.stale;
    for (std::size_t i = stale.size(); i-- > 0;)
      if (overlap(stale[i], e)) {
        swap_bytes(stale[i]);
        stale.erase(stale.begin() + static_cast<std::ptrdiff_t>(i));
      }
    std::memcpy(e.other, e.address, e.bytes);
    if (pending.size() >= kMaxPending) arrive_from(w, pending, w.random.below(pending.size()), true);
    pending.push_back(e);
  }
}

void before_coherent(Worker& w, const void* address, std::size_t bytes) {
  if (w.applied == nullptr || bytes == 0) return;
  Block& b = *w.applied;
  const Range r{const_cast<char*>(static_cast<const char*>(address)), bytes};
  auto& stale = b.stores.stale;
  for (std::size_t i = stale.size(); i-- > 0;)
    if (overlap(stale[i], r)) {
      swap_bytes(stale[i]);
      stale.erase(stale.begin() + static_cast<std::ptrdiff_t>(i));
    }
  const auto here = [&](const PendingStore& e) { return overlap(e, r); };
  arrive_where(w, buffers.device[b.stores.device], true, here);
  arrive_where(w, b.stores.pending, true, here);
}

void fence_stores(Worker& w, Lane& lane, Scope scope) {
  if (w.applied == nullptr || scope == Scope::kBlock) return;
  Block& b = *lane.block;
  // Acquire: old bytes of writers that the scope reaches are given up.
  auto& stale = b.stores.stale;
  for (std::size_t i = stale.size(); i-- > 0;)
    if (scope == Scope::kSystem || stale[i].writer_device == b.stores.device) {
      swap_bytes(stale[i]);
      stale.erase(stale.begin() + static_cast<std::ptrdiff_t>(i));
    }
  // Release: the thread's own stores, and those that a barrier put before this.
  const auto precedes = [&](const PendingStore& e) {
    return e.slot == b.slot && (e.thread == lane.index || e.time < b.global_sync);
  };
  auto& device = buffers.device[b.stores.device];
  if (scope == Scope::kSystem) {
    arrive_where(w, device, true, precedes);
    arrive_where(w, b.stores.pending, true, precedes);
    return;
  }
  for (std::size_t i = 0; i < b.stores.pending.size();) {
    if (!precedes(b.stores.pending[i])) {
      ++i;
      continue;
    }
    device.push_back(b.stores.pending[i]);
    b.stores.pending.erase(b.stores.pending.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void retire_stores(Worker& w, Block& b) {
  if (w.applied == &b) apply_view(w, nullptr);
  b.stores.stale.clear();
  buffers.ended.insert(buffers.ended.end(), b.stores.pending.begin(), b.stores.pending.end());
  b.stores.pending.clear();
}

bool has_late_stores(const Work& work) {
  const auto own = [&](const PendingStore& e) { return e.work == &work; };
  for (const auto& list : buffers.device)
    if (std::any_of(list.begin(), list.end(), own)) return true;
  return std::any_of(buffers.ended.begin(), buffers.ended.end(), own);
}

}  // namespace musaic::simt
