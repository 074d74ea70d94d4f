// Stores of a block that others do not see yet. Internal.
//
// Memory holds what the running block sees. When a worker leaves a block, its pending stores are taken back
// (the old bytes return, the new ones are kept); when it comes back they are put in force again. A fence of
// sufficient scope makes them final. In the other direction, a block may keep seeing old bytes that another
// one has replaced, until a fence of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/simt/intrinsic.h"

namespace musaic::simt {

struct Block;
struct Lane;
struct Worker;
struct Work;

struct PendingStore {
  char* address;
  std::uint8_t bytes;  // at most 16
  std::uint16_t thread;
  std::uint32_t time;
  std::uint32_t slot;  // of the block that stored
  const Work* work;
  std::uint8_t other[16];  // in force: the bytes that others see; taken back: the block's own
};

struct StaleBytes {
  char* address;
  std::uint8_t bytes;
  int writer_device;
  std::uint8_t other[16];  // in force: the current bytes; taken back: the old ones that the block sees
};

struct StoreBuffer {
  std::vector<PendingStore> pending;
  std::vector<StaleBytes> stale;
  int device = 0;
  bool empty() const { return pending.empty() && stale.empty(); }
};

/// The block's view of memory becomes the worker's; null: memory as everyone sees it.
void apply_view(Worker& worker, Block* block);
/// Before a plain or volatile store of the lane to device memory.
void before_store(Worker& worker, Lane& lane, void* address, std::size_t bytes);
/// Before an atomic operation: it works on memory as everyone sees it.
void before_coherent(Worker& worker, const void* address, std::size_t bytes);
void fence_stores(Worker& worker, Lane& lane, Scope scope);
/// The block ended; its stores may still be late.
void retire_stores(Worker& worker, Block& block);
/// A launch ends when its last store has arrived.
bool has_late_stores(const Work& work);

}  // namespace musaic::simt
