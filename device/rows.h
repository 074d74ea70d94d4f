// Access to the rows of a RowView.
#pragma once

#include "device/args.h"
#include "primitives.h"

namespace musaic::MUSAIC_TARGET {

template <class T>
MUSAIC_FN T* row_of(const RowView& v, std::int64_t r) {
  const std::int64_t element =
      v.inner == 1 ? r * v.outer_stride : (r / v.inner) * v.outer_stride + (r % v.inner) * v.inner_stride;
  return static_cast<T*>(v.data) + element;
}

}  // namespace musaic::MUSAIC_TARGET
