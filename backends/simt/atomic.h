// Atomic operations of kernels: relaxed, as the vendors' are; order comes from fences.
#pragma once

#include <cstdint>
#include <type_traits>

#include "backends/simt/intrinsic.h"

namespace musaic::simt {

template <class T>
using Identity = std::type_identity_t<T>;

#define MUSAIC_SIMT_RETURN_ADDRESS __builtin_extract_return_addr(__builtin_return_address(0))

/// p's value becomes f(value); the old one is returned.
template <class T, class F>
inline __attribute__((always_inline)) T atomic_update(T* p, F f, const void* return_address) {
  before_atomic(p, sizeof(T), AtomicKind::kUpdate, return_address);
  T old;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  T next = f(old);
  while (!__atomic_compare_exchange(p, &old, &next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) next = f(old);
  after_atomic_read(p);
  return old;
}

/// A flag's store that makes all that the thread wrote, or saw written, visible first.
template <class T>
MUSAIC_SIMT_UNCHECKED void store_release(T* p, Identity<T> value, Scope scope = Scope::kSystem) {
  fence(scope);
  before_atomic(p, sizeof(T), AtomicKind::kStore, MUSAIC_SIMT_RETURN_ADDRESS);
  __atomic_store(p, &value, __ATOMIC_SEQ_CST);
}
/// A flag's load; what its writer released is visible afterwards.
template <class T>
MUSAIC_SIMT_UNCHECKED T load_acquire(const T* p, Scope scope = Scope::kSystem) {
  before_atomic(p, sizeof(T), AtomicKind::kLoad, MUSAIC_SIMT_RETURN_ADDRESS);
  T value;
  __atomic_load(p, &value, __ATOMIC_SEQ_CST);
  after_atomic_read(p);
  fence(scope);
  return value;
}
template <class T>
MUSAIC_SIMT_UNCHECKED void store_relaxed(T* p, Identity<T> value) {
  before_atomic(p, sizeof(T), AtomicKind::kStore, MUSAIC_SIMT_RETURN_ADDRESS);
  __atomic_store(p, &value, __ATOMIC_SEQ_CST);
}
template <class T>
MUSAIC_SIMT_UNCHECKED T load_relaxed(const T* p) {
  before_atomic(p, sizeof(T), AtomicKind::kLoad, MUSAIC_SIMT_RETURN_ADDRESS);
  T value;
  __atomic_load(p, &value, __ATOMIC_SEQ_CST);
  after_atomic_read(p);
  return value;
}

}  // namespace musaic::simt

#define MUSAIC_SIMT_ATOMIC(spelling, expression)                                             \
  template <class T>                                                                         \
  MUSAIC_SIMT_UNCHECKED T spelling(T* p, musaic::simt::Identity<T> value) {                  \
    return musaic::simt::atomic_update(                                                      \
        p, [&](T old) __attribute__((always_inline)) { return static_cast<T>(expression); }, \
        MUSAIC_SIMT_RETURN_ADDRESS);                                                         \
  }
MUSAIC_SIMT_ATOMIC(atomicAdd, old + value)
MUSAIC_SIMT_ATOMIC(atomicSub, old - value)
MUSAIC_SIMT_ATOMIC(atomicMax, old < value ? value : old)
MUSAIC_SIMT_ATOMIC(atomicMin, value < old ? value : old)
MUSAIC_SIMT_ATOMIC(atomicAnd, old& value)
MUSAIC_SIMT_ATOMIC(atomicOr, old | value)
MUSAIC_SIMT_ATOMIC(atomicXor, old ^ value)
MUSAIC_SIMT_ATOMIC(atomicExch, (static_cast<void>(old), value))
MUSAIC_SIMT_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
MUSAIC_SIMT_ATOMIC(atomicDec, old == 0 || old > value ? value : old - 1)
#undef MUSAIC_SIMT_ATOMIC

template <class T>
MUSAIC_SIMT_UNCHECKED T atomicCAS(T* p, musaic::simt::Identity<T> expected, musaic::simt::Identity<T> value) {
  musaic::simt::before_atomic(p, sizeof(T), musaic::simt::AtomicKind::kUpdate, MUSAIC_SIMT_RETURN_ADDRESS);
  __atomic_compare_exchange(p, &expected, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  musaic::simt::after_atomic_read(p);
  return expected;
}
