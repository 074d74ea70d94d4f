#include "llm/staging.h"

#include <cstring>

namespace musaic::llm {

size_t Staging::add(DType dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = size_bytes(dtype);
  for (const int64_t n : shape) bytes *= n;
  fields_.push_back({dtype, shape, bytes_, {}});
  bytes_ += (bytes + 255) / 256 * 256;
  return fields_.size() - 1;
}

void Staging::allocate() {
  host_ = OwnedTensor(kUInt8, {bytes_});
  if (bytes_ > 0) std::memset(host_.view().data(), 0, static_cast<size_t>(bytes_));
  const bool shared = device_.type == DeviceType::kCpu;
  if (!shared) memory_ = OwnedTensor(kUInt8, {bytes_}, device_);
  for (Field& f : fields_)
    f.tensor = Tensor((shared ? host_ : memory_).data_as<std::byte>() + f.offset, f.dtype, f.shape.data(),
                      nullptr, static_cast<int>(f.shape.size()), device_);
}

void Staging::upload(Stream stream) const {
  if (device_.type != DeviceType::kCpu)
    copy_to_device(device_, memory_.view().data(), host_.view().data(), bytes_, stream);
}

}  // namespace musaic::llm
