// Tensor views: what every operator takes. A view owns nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "musaic/error.h"

namespace musaic {

/// Element type, bit for bit DLPack's DLDataType: a type code, the bits of an element, lanes (always 1).
struct DType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;

  friend constexpr bool operator==(DType a, DType b) {
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
  }
  friend constexpr bool operator!=(DType a, DType b) { return !(a == b); }
};

inline constexpr DType kInt8{0, 8, 1};
inline constexpr DType kInt32{0, 32, 1};
inline constexpr DType kInt64{0, 64, 1};
inline constexpr DType kUInt8{1, 8, 1};
inline constexpr DType kFloat16{2, 16, 1};
inline constexpr DType kFloat32{2, 32, 1};
inline constexpr DType kFloat64{2, 64, 1};  // named in errors only: no operator takes it
inline constexpr DType kBFloat16{4, 16, 1};
inline constexpr DType kBool{6, 8, 1};
// The codes of DLPack 1.1 for 8-bit floats. fn: finite, NaN but no infinity; fnuz: also no -0, bias one
// higher.
inline constexpr DType kFloat8E4M3FN{10, 8, 1};
inline constexpr DType kFloat8E4M3FNUZ{11, 8, 1};
inline constexpr DType kFloat8E5M2{12, 8, 1};
inline constexpr DType kFloat8E5M2FNUZ{13, 8, 1};

constexpr std::int64_t size_bytes(DType t) { return (std::int64_t{t.bits} * t.lanes + 7) / 8; }
/// The field's name of a dtype ("bfloat16"); "dtype(code, bits, lanes)" for one that the library has no name
/// for.
std::string to_string(DType t);

/// Where memory lies, bit for bit DLPack's DLDevice.
enum class DeviceType : std::int32_t {
  kCpu = 1,
  kCuda = 2,
  kRocm = 10,
  kMusa = 12,  // DLPack's kDLExtDev: the vendor has no code of its own
  kSimt = 31,  // simulated devices, whose memory the host can read; no code of DLPack's
};

struct Device {
  DeviceType type = DeviceType::kCpu;
  std::int32_t index = 0;

  friend constexpr bool operator==(Device a, Device b) { return a.type == b.type && a.index == b.index; }
  friend constexpr bool operator!=(Device a, Device b) { return !(a == b); }
};

std::string to_string(Device d);
/// "[2, 3]".
std::string shape_to_string(const std::int64_t* shape, int ndim);

/// The memory layout of DLPack's DLTensor (version 0.6 and later), field for field.
struct TensorLayout {
  void* data;
  Device device;
  std::int32_t ndim;
  DType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; never null in a Tensor
  std::uint64_t byte_offset;
};

/// A view of strided memory: data pointer, device, dtype, up to kMaxDims sizes and strides in elements.
///
/// The first member is a DLTensor in memory, and its shape and strides point into the view itself, so
/// `reinterpret_cast<DLTensor*>(&tensor)` is valid for as long as the view lives. A default-made view is
/// "no tensor", which optional arguments take.
class Tensor {
 public:
  static constexpr int kMaxDims = 8;

  Tensor() noexcept : layout_{nullptr, Device{}, 0, kFloat32, shape_, strides_, 0} {}

  /// A packed row-major view.
  Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> shape, Device device = {})
      : Tensor(data, dtype, shape.begin(), nullptr, static_cast<int>(shape.size()), device) {}

  /// A strided view; strides in elements.
  Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> shape,
         std::initializer_list<std::int64_t> strides, Device device = {})
      : Tensor(data, dtype, shape.begin(), strides.begin(), static_cast<int>(shape.size()), device) {
    if (strides.size() != shape.size()) throw Error("Tensor: shape and strides differ in length");
  }

  /// The general form; strides == nullptr means packed. Throws if ndim is outside [0, kMaxDims] or a size is
  /// negative.
  Tensor(void* data, DType dtype, const std::int64_t* shape, const std::int64_t* strides, int ndim,
         Device device);

  /// Read-only memory: operators write only to the arguments that their contract names.
  Tensor(const void* data, DType dtype, std::initializer_list<std::int64_t> shape, Device device = {})
      : Tensor(const_cast<void*>(data), dtype, shape, device) {}

  /// From the layout of a DLTensor (its strides may be null).
  explicit Tensor(const TensorLayout& t)
      : Tensor(static_cast<char*>(t.data) + t.byte_offset, t.dtype, t.shape, t.strides, t.ndim, t.device) {}

  Tensor(const Tensor& o) noexcept { assign(o); }
  Tensor& operator=(const Tensor& o) noexcept {
    if (this != &o) assign(o);
    return *this;
  }

  /// False for the view of "no tensor". An empty tensor (a size of 0) is a tensor.
  explicit operator bool() const noexcept { return layout_.data != nullptr || layout_.ndim > 0; }

  void* data() const noexcept { return layout_.data; }
  template <class T>
  T* data_as() const noexcept {
    return static_cast<T*>(layout_.data);
  }
  DType dtype() const noexcept { return layout_.dtype; }
  Device device() const noexcept { return layout_.device; }
  int ndim() const noexcept { return layout_.ndim; }
  std::int64_t size(int dim) const noexcept { return shape_[dim]; }
  std::int64_t stride(int dim) const noexcept { return strides_[dim]; }
  const std::int64_t* shape() const noexcept { return shape_; }
  const std::int64_t* strides() const noexcept { return strides_; }
  std::int64_t numel() const noexcept {
    std::int64_t n = 1;
    for (int i = 0; i < ndim(); ++i) n *= shape_[i];
    return n;
  }
  /// Row-major without gaps (sizes of 1 may have any stride).
  bool is_contiguous() const noexcept;
  const TensorLayout& layout() const noexcept { return layout_; }

  /// Row i of the first dimension.
  Tensor operator[](std::int64_t i) const;
  /// Elements [begin, end) of a dimension; no copy.
  Tensor slice(int dim, std::int64_t begin, std::int64_t end) const;
  /// The same elements under another shape; throws unless the view is contiguous and the counts agree.
  Tensor view(std::initializer_list<std::int64_t> shape) const;

 private:
  void assign(const Tensor& o) noexcept;

  TensorLayout layout_;
  std::int64_t shape_[kMaxDims] = {};
  std::int64_t strides_[kMaxDims] = {};
};

/// A tensor that owns its memory, for programs and tests; contents start as zeros.
class OwnedTensor {
 public:
  OwnedTensor() = default;
  OwnedTensor(DType dtype, std::initializer_list<std::int64_t> shape, Device device = {})
      : OwnedTensor(dtype, std::vector<std::int64_t>(shape), device) {}
  OwnedTensor(DType dtype, const std::vector<std::int64_t>& shape, Device device = {});
  ~OwnedTensor();
  OwnedTensor(OwnedTensor&& o) noexcept : view_(o.view_), memory_(o.memory_) {
    o.memory_ = nullptr;
    o.view_ = Tensor();
  }
  OwnedTensor& operator=(OwnedTensor&& o) noexcept;
  OwnedTensor(const OwnedTensor&) = delete;
  OwnedTensor& operator=(const OwnedTensor&) = delete;

  const Tensor& view() const noexcept { return view_; }
  operator const Tensor&() const noexcept { return view_; }
  template <class T>
  T* data_as() const noexcept {
    return view_.data_as<T>();
  }
  std::int64_t numel() const noexcept { return view_.numel(); }
  std::int64_t size_in_bytes() const noexcept { return view_.numel() * size_bytes(view_.dtype()); }

 private:
  Tensor view_;
  void* memory_ = nullptr;
};

}  // namespace musaic
