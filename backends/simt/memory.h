// Device memory: an arena per device, which bytes of it belong to an allocation, and its shadow.
#pragma once

#include <cstddef>
#include <cstdint>

namespace musaic::simt {

/// Memory of a device, 256-byte aligned, unwritten as far as the checks are concerned. 0 bytes: one that no
/// access fits. Throws musaic::Error when the arena is full.
void* allocate(std::int64_t bytes, int device = 0);
/// Waits for all work, as the vendors' calls do, then frees. The addresses are not used again.
void release(void* memory);

/// Tells the checks that the host wrote device memory by itself.
void mark_written(const void* memory, std::int64_t bytes);
/// Forgets all that was written, as after allocate().
void mark_unwritten(const void* memory, std::int64_t bytes);

/// Lets kernels of `device` use memory of `peer`, as the vendors' call does.
void enable_peer_access(int device, int peer);
void disable_peer_access(int device, int peer);

/// A name of an allocation that another device, or another process-local peer, opens.
struct IpcHandle {
  unsigned char bytes[64];
};
/// The handle of the allocation that holds `memory`; Error if there is none.
IpcHandle ipc_handle(const void* memory);
/// The start of the allocation, for kernels of `device`. Error for a handle that is not of this kind, or
/// whose allocation was freed.
void* ipc_open(const IpcHandle& handle, int device);
void ipc_close(void* memory, int device);

}  // namespace musaic::simt
