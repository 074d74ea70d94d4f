#include "musaic/tensor.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "musaic/device.h"

namespace musaic {

std::string to_string(DType t) {
  struct Name {
    DType dtype;
    const char* name;
  };
  static constexpr Name kNames[] = {{kInt8, "int8"},
                                    {kInt32, "int32"},
                                    {kInt64, "int64"},
                                    {kUInt8, "uint8"},
                                    {kFloat16, "float16"},
                                    {kFloat32, "float32"},
                                    {kFloat64, "float64"},
                                    {kBFloat16, "bfloat16"},
                                    {kBool, "bool"},
                                    {kFloat8E4M3FN, "float8_e4m3fn"},
                                    {kFloat8E4M3FNUZ, "float8_e4m3fnuz"},
                                    {kFloat8E5M2, "float8_e5m2"},
                                    {kFloat8E5M2FNUZ, "float8_e5m2fnuz"}};
  for (const Name& n : kNames)
    if (n.dtype == t) return n.name;
  return "dtype(" + std::to_string(t.code) + ", " + std::to_string(t.bits) + ", " + std::to_string(t.lanes) +
         ")";
}

std::string to_string(Device d) {
  const char* name = "device";
  switch (d.type) {
    case DeviceType::kCpu:
      return "cpu";
    case DeviceType::kCuda:
      name = "cuda";
      break;
    case DeviceType::kRocm:
      name = "hip";
      break;
    case DeviceType::kMusa:
      name = "musa";
      break;
    case DeviceType::kSimt:
      name = "simt";
      break;
    default:
      return "device(" + std::to_string(static_cast<int>(d.type)) + "):" + std::to_string(d.index);
  }
  return std::string(name) + ":" + std::to_string(d.index);
}

std::string shape_to_string(const std::int64_t* shape, int ndim) {
  std::string s = "[";
  for (int i = 0; i < ndim; ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + "]";
}

Tensor::Tensor(void* data, DType dtype, const std::int64_t* shape, const std::int64_t* strides, int ndim,
               Device device)
    : layout_{data, device, ndim, dtype, shape_, strides_, 0} {
  if (ndim < 0 || ndim > kMaxDims)
    throw Error("Tensor", "shape", std::to_string(ndim) + " dimensions", "0 to " + std::to_string(kMaxDims));
  for (int i = 0; i < ndim; ++i) {
    if (shape[i] < 0) throw Error("Tensor", "shape", shape_to_string(shape, ndim), "no negative size");
    shape_[i] = shape[i];
  }
  std::int64_t packed = 1;
  for (int i = ndim - 1; i >= 0; --i) {
    strides_[i] = strides != nullptr ? strides[i] : packed;
    if (__builtin_mul_overflow(packed, shape_[i] > 0 ? shape_[i] : 1, &packed))
      throw Error("Tensor", "shape", shape_to_string(shape, ndim), "fewer than 2^63 elements");
  }
}

void Tensor::assign(const Tensor& o) noexcept {
  layout_ = o.layout_;
  layout_.shape = shape_;
  layout_.strides = strides_;
  std::memcpy(shape_, o.shape_, sizeof shape_);
  std::memcpy(strides_, o.strides_, sizeof strides_);
}

bool Tensor::is_contiguous() const noexcept {
  std::int64_t packed = 1;
  if (numel() == 0) return true;
  for (int i = ndim() - 1; i >= 0; --i) {
    if (shape_[i] != 1 && strides_[i] != packed) return false;
    packed *= shape_[i];
  }
  return true;
}

Tensor Tensor::operator[](std::int64_t i) const {
  if (ndim() == 0 || i < 0 || i >= shape_[0])
    throw Error("Tensor", "index", std::to_string(i) + " into " + shape_to_string(shape_, ndim()),
                "an existing row");
  return Tensor(data_as<char>() + i * strides_[0] * size_bytes(dtype()), dtype(), shape_ + 1, strides_ + 1,
                ndim() - 1, device());
}

Tensor Tensor::slice(int dim, std::int64_t begin, std::int64_t end) const {
  if (dim < 0 || dim >= ndim() || begin < 0 || end < begin || end > shape_[dim])
    throw Error("Tensor", "slice",
                "[" + std::to_string(begin) + ", " + std::to_string(end) + ") of dim " + std::to_string(dim),
                "a range inside " + shape_to_string(shape_, ndim()));
  Tensor t = *this;
  t.shape_[dim] = end - begin;
  t.layout_.data = data_as<char>() + begin * strides_[dim] * size_bytes(dtype());
  return t;
}

Tensor Tensor::view(std::initializer_list<std::int64_t> shape) const {
  Tensor t(data(), dtype(), shape, device());
  if (!is_contiguous() || t.numel() != numel())
    throw Error("Tensor", "view", shape_to_string(t.shape_, t.ndim()),
                "a shape of " + std::to_string(numel()) + " contiguous elements");
  return t;
}

OwnedTensor::OwnedTensor(DType dtype, const std::vector<std::int64_t>& shape, Device device)
    : view_(nullptr, dtype, shape.data(), nullptr, static_cast<int>(shape.size()), device) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(view_.numel(), size_bytes(dtype), &bytes)) throw std::bad_alloc();
  memory_ = allocate(device, std::max<std::int64_t>(bytes, 1));
  fill(device, memory_, 0, bytes);
  view_ = Tensor(memory_, dtype, shape.data(), nullptr, static_cast<int>(shape.size()), device);
}

OwnedTensor::~OwnedTensor() {
  if (memory_ != nullptr) release(view_.device(), memory_);
}

OwnedTensor& OwnedTensor::operator=(OwnedTensor&& o) noexcept {
  std::swap(memory_, o.memory_);
  std::swap(view_, o.view_);
  return *this;
}

}  // namespace musaic
