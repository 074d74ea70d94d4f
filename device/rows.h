// Access to the rows of a RowView and the elements of a VectorView.
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

/// Reads and writes of vectors whose element type is known at run time.
MUSAIC_FN std::int64_t read_integer(const VectorView& v, std::int64_t i) {
  if (v.bytes == 8) return static_cast<const std::int64_t*>(v.data)[i * v.stride];
  return static_cast<const std::int32_t*>(v.data)[i * v.stride];
}
MUSAIC_FN void write_integer(const VectorView& v, std::int64_t i, std::int64_t value) {
  if (v.bytes == 8)
    static_cast<std::int64_t*>(v.data)[i * v.stride] = value;
  else if (v.bytes == 4)
    static_cast<std::int32_t*>(v.data)[i * v.stride] = static_cast<std::int32_t>(value);
  else
    static_cast<std::uint8_t*>(v.data)[i * v.stride] = static_cast<std::uint8_t>(value);
}
MUSAIC_FN float read_float(const VectorView& v, std::int64_t i, float otherwise) {
  return v.data == nullptr ? otherwise : static_cast<const float*>(v.data)[i * v.stride];
}

}  // namespace musaic::MUSAIC_TARGET
