#include "bindings/torch/adapter.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <unordered_map>

#include "bindings/torch/vendor.h"

namespace musaic::torch_adapter {
namespace {

DType dtype_of(at::ScalarType type, const char* where, const char* argument) {
  switch (type) {
    case at::kByte:
      return kUInt8;
    case at::kChar:
      return kInt8;
    case at::kInt:
      return kInt32;
    case at::kLong:
      return kInt64;
    case at::kHalf:
      return kFloat16;
    case at::kBFloat16:
      return kBFloat16;
    case at::kFloat:
      return kFloat32;
    case at::kDouble:
      return kFloat64;
    case at::kBool:
      return kBool;
    case at::kFloat8_e4m3fn:
      return kFloat8E4M3FN;
    case at::kFloat8_e4m3fnuz:
      return kFloat8E4M3FNUZ;
    case at::kFloat8_e5m2:
      return kFloat8E5M2;
    case at::kFloat8_e5m2fnuz:
      return kFloat8E5M2FNUZ;
    default:
      throw Error(where, argument, std::string("dtype ") + c10::toString(type),
                  "a dtype that the library has");
  }
}

constexpr int kDeviceTypes = static_cast<int>(c10::DeviceType::COMPILE_TIME_MAX_DEVICE_TYPES);
const Vendor kHost{"cpu", DeviceType::kCpu, [](const c10::Stream&) -> void* { return nullptr; },
                   host_random_state};

std::array<const Vendor*, kDeviceTypes>& vendors() {
  static std::array<const Vendor*, kDeviceTypes> list = [] {
    std::array<const Vendor*, kDeviceTypes> l{};
    l[static_cast<std::size_t>(c10::DeviceType::CPU)] = &kHost;
    return l;
  }();
  return list;
}

/// How much scratch memory each operator's last large call wanted, by its place in the list.
std::atomic<std::int64_t>& scratch_bytes(const OpInfo& op) {
  static std::vector<std::atomic<std::int64_t>> sizes(operators().size());
  return sizes[static_cast<std::size_t>(&op - operators().data())];
}

void call_with_scratch(const OpInfo& op, const Value* values, c10::Device device, Stream stream) {
  std::atomic<std::int64_t>& hint = scratch_bytes(op);
  for (int attempt = 0;; ++attempt) {
    Workspace workspace;
    at::Tensor memory;
    const std::int64_t bytes = hint.load(std::memory_order_relaxed);
    if (bytes > 0) {
      memory = at::empty({bytes + 64}, at::TensorOptions().dtype(at::kByte).device(device));
      const auto address = reinterpret_cast<std::uintptr_t>(memory.data_ptr());
      workspace = {reinterpret_cast<void*>((address + 63) / 64 * 64), bytes};
    }
    try {
      op.call(values, stream, workspace);
      return;
    } catch (const Error& e) {
      // A workspace that is too small is refused before anything is launched, with the size that would do.
      const std::int64_t wanted = workspace_wanted(e);
      if (wanted <= bytes || attempt > 3) throw;
      std::int64_t size = 256;
      while (size < wanted) size += size / 4 / 256 * 256 + 256;
      hint.store(size, std::memory_order_relaxed);
    }
  }
}

}  // namespace

void raise(const Error& error) {
  const c10::SourceLocation here{error.where().c_str(), __FILE__, static_cast<std::uint32_t>(__LINE__)};
  if (error.argument().empty() || error.where() == "musaic") throw c10::Error(here, error.what());
  throw c10::ValueError(here, error.what());
}

void set_vendor(c10::DeviceType type, const Vendor& vendor) {
  vendors()[static_cast<std::size_t>(type)] = &vendor;
}

const Vendor& vendor_of(c10::DeviceType type) {
  const Vendor* vendor = vendors()[static_cast<std::size_t>(type)];
  TORCH_CHECK(vendor != nullptr, "musaic: device: ", c10::DeviceTypeName(type, true),
              ", expected a device type that this build of the torch operators serves");
  return *vendor;
}

RandomState host_random_state(const std::optional<at::Generator>& generator, c10::Device device) {
  auto* host =
      at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  std::int64_t seed;
  {
    const std::lock_guard<std::mutex> lock(host->mutex_);
    seed = static_cast<std::int64_t>(host->random64());
  }
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  return {at::full({1}, seed, options), at::full({1}, std::int64_t{0}, options)};
}

Tensor view_of(const at::Tensor& tensor, bool written, const char* where, const char* argument) {
  if (tensor.dim() > Tensor::kMaxDims)
    throw Error(where, argument, std::to_string(tensor.dim()) + " dimensions", "8 or fewer");
  // A tensor of a rank has memory in the library's sense even where torch gives it none.
  const c10::Device device = tensor.device();
  void* data = written ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
  return Tensor(data, dtype_of(tensor.scalar_type(), where, argument), tensor.sizes().data(),
                tensor.strides().data(), static_cast<int>(tensor.dim()),
                {vendor_of(device.type()).device, device.has_index() ? device.index() : 0});
}

bool MemorylessViews::view_of(const at::Tensor& tensor, const char* where, const char* argument,
                              Tensor* view) {
  c10::SmallVector<std::int64_t, 8> sizes, strides;
  for (const c10::SymInt& s : tensor.sym_sizes()) {
    const auto known = s.maybe_as_int();
    if (!known) return false;
    sizes.push_back(*known);
  }
  for (const c10::SymInt& s : tensor.sym_strides()) {
    const auto known = s.maybe_as_int();
    if (!known) return false;
    strides.push_back(*known);
  }
  const auto offset = tensor.sym_storage_offset().maybe_as_int();
  if (!offset) return false;
  if (sizes.size() > Tensor::kMaxDims)
    throw Error(where, argument, std::to_string(sizes.size()) + " dimensions", "8 or fewer");
  const void* storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  std::size_t at = 0;
  while (at < storages_.size() && storages_[at] != storage) ++at;
  if (at == storages_.size()) storages_.push_back(storage);
  const DType dtype = dtype_of(tensor.scalar_type(), where, argument);
  constexpr std::uintptr_t kApart = std::uintptr_t{1} << 50;
  const std::uintptr_t address = (at + 1) * kApart + static_cast<std::uintptr_t>(*offset * size_bytes(dtype));
  *view = Tensor(reinterpret_cast<void*>(address), dtype, sizes.data(), strides.data(),
                 static_cast<int>(sizes.size()), {static_cast<DeviceType>(-1), 0});
  return true;
}

void check_only(const OpInfo& op, const Value* values) {
  // The views name a device type that no backend serves: a call that passes every check ends there.
  try {
    op.call(values, {}, {reinterpret_cast<void*>(std::uintptr_t{1} << 49), std::int64_t{1} << 48});
  } catch (const Error& e) {
    if (e.where() == "musaic" && e.argument() == "device") return;
    raise(e);
  }
}

void run(const OpInfo& op, const Value* values, c10::Device device) {
  try {
    if (device.is_cpu()) return call_with_scratch(op, values, device, {});
    const c10::DeviceGuard guard(device);
    const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
    call_with_scratch(op, values, device, {vendor_of(device.type()).raw_stream(stream)});
  } catch (const Error& e) {
    raise(e);
  }
}

}  // namespace musaic::torch_adapter
