#include "backends/backend.h"

#include "musaic/check.h"

namespace musaic {

#define MUSAIC_BACKEND(ns, type) \
  namespace ns {                 \
  const BackendEntry& entry();   \
  }
#include "backends.inc"
#undef MUSAIC_BACKEND

namespace {

constexpr DeviceType kTypes[] = {
    DeviceType::kCpu,
#define MUSAIC_BACKEND(ns, type) DeviceType::type,
#include "backends.inc"
#undef MUSAIC_BACKEND
};

const BackendEntry* entry_of(DeviceType type) {
  switch (type) {
    case DeviceType::kCpu:
      return &cpu::entry();
#define MUSAIC_BACKEND(ns, type_) \
  case DeviceType::type_:         \
    return &ns::entry();
#include "backends.inc"
#undef MUSAIC_BACKEND
    default:
      return nullptr;
  }
}

const BackendEntry& checked_entry(Device device) {
  const BackendEntry* entry = entry_of(device.type);
  if (entry == nullptr) {
    std::string built;
    for (const DeviceType type : device_types())
      built += std::string(built.empty() ? "" : ", ") + entry_of(type)->name;
    throw Error("musaic", "device", to_string(device), "a device with a backend in this build: " + built);
  }
  const int count = entry->runtime->device_count();
  if (device.index < 0 || device.index >= count)
    throw Error("musaic", "device", to_string(device),
                "one of the " + std::to_string(count) + " devices of " + entry->name);
  return *entry;
}

}  // namespace

std::vector<DeviceType> device_types() { return {std::begin(kTypes), std::end(kTypes)}; }

int device_count(DeviceType type) {
  const BackendEntry* entry = entry_of(type);
  return entry == nullptr ? 0 : entry->runtime->device_count();
}

Device find_device(const std::string& name) {
  const std::string::size_type colon = name.find(':');
  const std::string family = name.substr(0, colon);
  std::string known;
  for (const DeviceType type : device_types()) {
    const BackendEntry& entry = *entry_of(type);
    if (family == entry.name) {
      const int index = entry.find(colon == std::string::npos ? "" : name.substr(colon + 1));
      if (index < 0)
        throw Error(
            "musaic", "device", name,
            "one of the " + std::to_string(entry.runtime->device_count()) + " devices of " + entry.name);
      return {type, index};
    }
    known += std::string(known.empty() ? "" : ", ") + entry.name;
  }
  throw Error("musaic", "device", name, "a device of this build's backends: " + known);
}

Backend backend_for(Device device) {
  const BackendEntry& entry = checked_entry(device);
  return {entry.name, entry.ops(device.index), entry.runtime, entry.runtime->faults(device.index)};
}

std::string lacks_dtype(Device device, DType dtype) {
  const BackendEntry* entry = entry_of(device.type);  // a device without a backend is the launch's error
  return entry == nullptr || device.type == DeviceType::kCpu ? ""
                                                             : entry->runtime->lacks(device.index, dtype);
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

Backend enter(Device device) {
  const Backend b = backend_for(device);
  raise_recorded_fault(b);
  b.runtime->use(device.index);
  return b;
}

void check(Device device, Stream stream) {
  const Backend b = backend_for(device);
  b.runtime->synchronize(device.index, stream);
  raise_recorded_fault(b);
}

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
