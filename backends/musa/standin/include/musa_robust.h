// Loads that check their bounds, on mp_31 [TL copy.h, SG dtype.muh]. The library does without them; the names
// are here since public code uses them.
#pragma once

#include "musa_runtime.h"

#if defined(__MTGPU__) && defined(__MUSA_ARCH__) && __MUSA_ARCH__ >= 310
namespace __musa {
template <class T>
struct robust_ptr {
  __device__ robust_ptr(T* p, size_t bytes);
};
}  // namespace __musa
template <class Vector, class Element>
__device__ Vector robust_load(__musa::robust_ptr<Element> p, int index);
template <class Vector, class Element>
__device__ void robust_store(__musa::robust_ptr<Element> p, int index, Vector value);
#endif
