// The functions that compilers call for -fsanitize=thread and -fsanitize=bounds,alignment, and the C
// library's block operations. They check what kernels do and ignore everything else. No
// sanitizer runtime is linked.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/simt/access.h"
#include "backends/simt/find.h"

namespace {

using musaic::simt::Access;
using musaic::simt::AtomicKind;
using musaic::simt::this_worker;
using musaic::simt::Worker;

#define HERE __builtin_extract_return_addr(__builtin_return_address(0))

inline void on_access(const void* p, std::size_t bytes, Access access, bool natural, const void* pc) {
  Worker* w = this_worker;
  if (w != nullptr && w->in_kernel && bytes != 0)
    musaic::simt::check_access(*w, p, bytes, access, natural, pc);
}

/// Around an atomic builtin: its order acts as fences of the system.
class AtomicCall {
 public:
  AtomicCall(const volatile void* p, unsigned bytes, AtomicKind kind, int order, const void* pc)
      : address_(const_cast<const void*>(p)),
        in_kernel_(this_worker != nullptr && this_worker->in_kernel),
        reads_(kind != AtomicKind::kStore),
        acquires_(order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE) {
    if (!in_kernel_) return;
    if (kind != AtomicKind::kLoad && order != __ATOMIC_RELAXED && order != __ATOMIC_ACQUIRE)
      musaic::simt::fence(musaic::simt::Scope::kSystem);
    musaic::simt::before_atomic(address_, bytes, kind, pc);
  }
  ~AtomicCall() {
    if (!in_kernel_ || !reads_) return;
    musaic::simt::after_atomic_read(address_);
    if (acquires_) musaic::simt::fence(musaic::simt::Scope::kSystem);
  }
  AtomicCall(const AtomicCall&) = delete;
  AtomicCall& operator=(const AtomicCall&) = delete;

 private:
  const void* address_;
  bool in_kernel_, reads_, acquires_;
};

struct UbsanLocation {
  const char* file;
  std::uint32_t line, column;
};

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

#define MUSAIC_HOOKS(bytes)                                                                               \
  void __tsan_read##bytes(void* p) { on_access(p, bytes, Access::kRead, true, HERE); }                    \
  void __tsan_write##bytes(void* p) { on_access(p, bytes, Access::kWrite, true, HERE); }                  \
  void __tsan_unaligned_read##bytes(void* p) { on_access(p, bytes, Access::kRead, false, HERE); }         \
  void __tsan_unaligned_write##bytes(void* p) { on_access(p, bytes, Access::kWrite, false, HERE); }       \
  void __tsan_volatile_read##bytes(void* p) { on_access(p, bytes, Access::kVolatileRead, true, HERE); }   \
  void __tsan_volatile_write##bytes(void* p) { on_access(p, bytes, Access::kVolatileWrite, true, HERE); } \
  void __tsan_unaligned_volatile_read##bytes(void* p) {                                                   \
    on_access(p, bytes, Access::kVolatileRead, false, HERE);                                              \
  }                                                                                                       \
  void __tsan_unaligned_volatile_write##bytes(void* p) {                                                  \
    on_access(p, bytes, Access::kVolatileWrite, false, HERE);                                             \
  }                                                                                                       \
  void __tsan_read_write##bytes(void* p) {                                                                \
    on_access(p, bytes, Access::kRead, true, HERE);                                                       \
    on_access(p, bytes, Access::kWrite, true, HERE);                                                      \
  }                                                                                                       \
  void __tsan_unaligned_read_write##bytes(void* p) {                                                      \
    on_access(p, bytes, Access::kRead, false, HERE);                                                      \
    on_access(p, bytes, Access::kWrite, false, HERE);                                                     \
  }
MUSAIC_HOOKS(1)
MUSAIC_HOOKS(2)
MUSAIC_HOOKS(4)
MUSAIC_HOOKS(8)
MUSAIC_HOOKS(16)

void __tsan_read_range(void* p, std::size_t bytes) { on_access(p, bytes, Access::kRead, false, HERE); }
void __tsan_write_range(void* p, std::size_t bytes) { on_access(p, bytes, Access::kWrite, false, HERE); }
void __tsan_vptr_update(void** p, void*) { on_access(p, sizeof(void*), Access::kWrite, true, HERE); }
void __tsan_vptr_read(void** p) { on_access(p, sizeof(void*), Access::kRead, true, HERE); }

// Atomic builtins of kernels that use std::atomic_ref or __atomic_*.
#define MUSAIC_ATOMIC_HOOKS(bits, T)                                                                   \
  T __tsan_atomic##bits##_load(const volatile T* p, int order) {                                       \
    const AtomicCall call(p, sizeof(T), AtomicKind::kLoad, order, HERE);                               \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                       \
  }                                                                                                    \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int order) {                                    \
    const AtomicCall call(p, sizeof(T), AtomicKind::kStore, order, HERE);                              \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* expected, T v, int order, int) { \
    const AtomicCall call(p, sizeof(T), AtomicKind::kUpdate, order, HERE);                             \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);     \
  }                                                                                                    \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* expected, T v, int order, int) {   \
    const AtomicCall call(p, sizeof(T), AtomicKind::kUpdate, order, HERE);                             \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);     \
  }                                                                                                    \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T expected, T v, int order, int) {       \
    const AtomicCall call(p, sizeof(T), AtomicKind::kUpdate, order, HERE);                             \
    __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);           \
    return expected;                                                                                   \
  }                                                                                                    \
  MUSAIC_ATOMIC_UPDATE(bits, T, exchange, __atomic_exchange_n)                                         \
  MUSAIC_ATOMIC_UPDATE(bits, T, fetch_add, __atomic_fetch_add)                                         \
  MUSAIC_ATOMIC_UPDATE(bits, T, fetch_sub, __atomic_fetch_sub)                                         \
  MUSAIC_ATOMIC_UPDATE(bits, T, fetch_and, __atomic_fetch_and)                                         \
  MUSAIC_ATOMIC_UPDATE(bits, T, fetch_or, __atomic_fetch_or)                                           \
  MUSAIC_ATOMIC_UPDATE(bits, T, fetch_xor, __atomic_fetch_xor)                                         \
  MUSAIC_ATOMIC_UPDATE(bits, T, fetch_nand, __atomic_fetch_nand)
#define MUSAIC_ATOMIC_UPDATE(bits, T, operation, builtin)                  \
  T __tsan_atomic##bits##_##operation(volatile T* p, T v, int order) {     \
    const AtomicCall call(p, sizeof(T), AtomicKind::kUpdate, order, HERE); \
    return builtin(p, v, __ATOMIC_SEQ_CST);                                \
  }
MUSAIC_ATOMIC_HOOKS(8, std::uint8_t)
MUSAIC_ATOMIC_HOOKS(16, std::uint16_t)
MUSAIC_ATOMIC_HOOKS(32, std::uint32_t)
MUSAIC_ATOMIC_HOOKS(64, std::uint64_t)

void __tsan_atomic_thread_fence(int) { musaic::simt::fence(musaic::simt::Scope::kSystem); }
void __tsan_atomic_signal_fence(int) {}

// The access that follows would damage the fiber's stack, so the block ends here.
void __ubsan_handle_out_of_bounds(UbsanLocation* where, std::uintptr_t index) {
  Worker* w = this_worker;
  if (w == nullptr || !w->in_kernel) return;
  const musaic::simt::InExecutor guard;
  const musaic::simt::Lane& lane = *w->lane;
  const musaic::simt::WorkInfo& work = *lane.block->work->info;
  musaic::simt::found_at(
      musaic::simt::Finding::kIndexBounds, *lane.block->work,
      musaic::simt::index_in(lane.block->linear, work.grid), musaic::simt::index_in(lane.index, work.block),
      {where->file, static_cast<int>(where->line), static_cast<int>(where->column)},
      "index " + std::to_string(static_cast<std::intptr_t>(index)) + " is outside its array");
  musaic::simt::abandon(*w->lane);
}

struct TypeMismatch {
  UbsanLocation where;
  const void* type;
  unsigned char log_alignment;
  unsigned char check;
};
void __ubsan_handle_type_mismatch_v1(TypeMismatch* data, std::uintptr_t address) {
  Worker* w = this_worker;
  const std::uintptr_t alignment = std::uintptr_t{1} << data->log_alignment;
  if (w == nullptr || !w->in_kernel || address == 0 || (address & (alignment - 1)) == 0) return;
  const musaic::simt::InExecutor guard;
  musaic::simt::found(musaic::simt::Finding::kMisaligned, *w->lane, HERE,
                      reinterpret_cast<const void*>(address),
                      "address that is not a multiple of " + std::to_string(alignment));
}

// What a kernel's memcpy, memmove and memset are linked to: kernel.h renames them for gcc, the linker's --wrap for clang.
#if defined(__clang__)
#define MUSAIC_CHECKED(name) __wrap_##name
void* __real_memcpy(void* to, const void* from, std::size_t bytes);
void* __real_memmove(void* to, const void* from, std::size_t bytes);
void* __real_memset(void* to, int value, std::size_t bytes);
#define MUSAIC_UNCHECKED(name) __real_##name
#else
#define MUSAIC_CHECKED(name) musaic_simt_##name
#define MUSAIC_UNCHECKED(name) std::name
#endif
void* MUSAIC_CHECKED(memcpy)(void* to, const void* from, std::size_t bytes) {
  on_access(from, bytes, Access::kRead, false, HERE);
  on_access(to, bytes, Access::kWrite, false, HERE);
  return MUSAIC_UNCHECKED(memcpy)(to, from, bytes);
}
void* MUSAIC_CHECKED(memmove)(void* to, const void* from, std::size_t bytes) {
  on_access(from, bytes, Access::kRead, false, HERE);
  on_access(to, bytes, Access::kWrite, false, HERE);
  return MUSAIC_UNCHECKED(memmove)(to, from, bytes);
}
void* MUSAIC_CHECKED(memset)(void* to, int value, std::size_t bytes) {
  on_access(to, bytes, Access::kWrite, false, HERE);
  return MUSAIC_UNCHECKED(memset)(to, value, bytes);
}

}  // extern "C"
