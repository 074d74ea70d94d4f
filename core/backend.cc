#include "backends/backend.h"

#include "musaic/check.h"

namespace musaic {
namespace {

constexpr std::int32_t kDeviceTypes = 32;
const Backend* added[kDeviceTypes] = {};

}  // namespace

void add_backend(DeviceType type, const Backend& backend) {
  added[static_cast<std::int32_t>(type)] = &backend;
}

const Backend& backend_for(Device device) {
  if (device.type == DeviceType::kCpu) return cpu::backend();
  const auto type = static_cast<std::int32_t>(device.type);
  if (type >= 0 && type < kDeviceTypes && added[type] != nullptr) return *added[type];
  std::string built = "cpu";
  for (const Backend* b : added)
    if (b != nullptr) built += std::string(", ") + b->name;
  throw Error("musaic", "device", to_string(device), "a device with a backend in this build: " + built);
}

void raise_recorded_fault(const Backend& backend) {
  FaultRecord& r = *backend.faults;
  const std::uint32_t kind = __atomic_load_n(&r.kind, __ATOMIC_ACQUIRE);
  if (kind == 0) return;
  const FaultSite* site = static_cast<const FaultSite*>(r.site);
  const std::int64_t row = r.row, value = r.value;
  r.kind = 0;
  __atomic_store_n(&r.taken, 0u, __ATOMIC_RELEASE);
  if (kind == static_cast<std::uint32_t>(DeviceFault::kNotANumber))
    throw Error(site->op, site->argument, "NaN in row " + std::to_string(row), "numbers");
  throw Error(site->op, site->argument, std::to_string(value) + " at " + std::to_string(row),
              "an index inside its table");
}

const Backend& enter(Device device) {
  const Backend& b = backend_for(device);
  raise_recorded_fault(b);
  return b;
}

void check(Device device, Stream) { raise_recorded_fault(backend_for(device)); }

RowView rows_of(const char* op, const char* argument, const Tensor& t) {
  RowView v;
  v.data = t.data();
  // Collapse neighbours from the inside out into at most two (size, stride) pairs.
  std::int64_t sizes[2] = {1, 1}, strides[2] = {0, 0};
  int used = 0;
  for (int d = t.ndim() - 2; d >= 0; --d) {
    if (t.size(d) == 1) continue;
    if (used > 0 && t.stride(d) == strides[used - 1] * sizes[used - 1]) {
      sizes[used - 1] *= t.size(d);
    } else if (used < 2) {
      sizes[used] = t.size(d);
      strides[used] = t.stride(d);
      ++used;
    } else {
      throw Error(op, argument, "strides " + shape_to_string(t.strides(), t.ndim()),
                  "leading dimensions that collapse to two");
    }
  }
  if (used == 2) {
    v.inner = sizes[0];
    v.inner_stride = strides[0];
    v.outer_stride = strides[1];
  } else {
    v.outer_stride = strides[0];
  }
  return v;
}

}  // namespace musaic
