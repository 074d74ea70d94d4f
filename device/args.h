// Plain data that argument structs are made of; the same layout on host and device, no dependency on a
// backend.
#pragma once

#include <cstdint>

#include "device/fault.h"
#include "musaic/tensor.h"

namespace musaic {

/// The floating-point storage types that operators take, as a kernel is told of them at run time.
enum class FloatKind : std::int32_t { kF32, kF16, kBF16 };

constexpr FloatKind float_kind(DType t) {
  return t == kFloat32 ? FloatKind::kF32 : t == kFloat16 ? FloatKind::kF16 : FloatKind::kBF16;
}

/// Rows of a tensor whose last dimension is contiguous, over at most two leading dimensions:
/// row r starts at element (r / inner) * outer_stride + (r % inner) * inner_stride.
struct RowView {
  void* data = nullptr;
  std::int64_t inner = 1;
  std::int64_t outer_stride = 0;
  std::int64_t inner_stride = 0;
};

/// A vector of any stride, whose element type may be known at run time only (`bytes` an element).
struct VectorView {
  void* data = nullptr;  // null: not given
  std::int64_t stride = 0;
  std::int32_t bytes = 0;
};

inline VectorView vector_of(const Tensor& t) {
  if (!t) return {};
  return {t.data(), t.size(0) > 1 ? t.stride(0) : 0, static_cast<std::int32_t>(size_bytes(t.dtype()))};
}

}  // namespace musaic
