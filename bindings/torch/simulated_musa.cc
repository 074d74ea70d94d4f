// A MUSA device for torch without a card: PrivateUse1 whose memory is the executor's and whose kernels run on simt:musa-mp31.
// For tests; "simulated mp_31, not hardware".
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_copy_from_and_resize_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstring>
#include <mutex>
#include <utility>

#include "backends/simt/stream.h"
#include "bindings/torch/adapter.h"
#include "bindings/torch/vendor.h"
#include "musaic/device.h"

namespace musaic::torch_adapter {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kDevices = 2;
thread_local c10::DeviceIndex current = 0;
thread_local std::int64_t streams[kDevices] = {};

musaic::Device simulated(c10::DeviceIndex index) { return {DeviceType::kSimt, index < 0 ? current : index}; }

/// Streams by number: 0 is the default one, the others are made when asked for.
Stream stream_of(c10::DeviceIndex device, std::int64_t id) {
  static std::mutex mutex;
  static std::vector<Stream> made[kDevices];
  if (id == 0) return {};
  const std::lock_guard<std::mutex> lock(mutex);
  auto& list = made[device];
  while (static_cast<std::int64_t>(list.size()) < id) list.push_back(create_stream(simulated(device)));
  return list[static_cast<std::size_t>(id - 1)];
}
std::atomic<std::int64_t> last_stream{0};

template <class F>
auto reported(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error& e) {
    raise(e);
  }
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device d) const override {
    const c10::Device before = getDevice();
    setDevice(d);
    return before;
  }
  c10::Device getDevice() const override { return {kType, current}; }
  void setDevice(c10::Device d) const override {
    TORCH_CHECK(d.index() < kDevices, "musa: device ", static_cast<int>(d.index()), ", expected one of ",
                static_cast<int>(kDevices), " simulated ones");
    if (d.has_index()) current = d.index();
  }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.has_index()) current = d.index();
  }
  c10::Stream getStream(c10::Device d) const override { return at(d, streams[index(d)]); }
  c10::Stream getDefaultStream(c10::Device d) const override { return at(d, 0); }
  c10::Stream getNewStream(c10::Device d, int) const override { return at(d, ++last_stream); }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override { return at(d, ++last_stream); }
  c10::Stream exchangeStream(c10::Stream s) const override {
    const c10::Stream before = getStream(s.device());
    streams[index(s.device())] = s.id();
    return before;
  }
  void synchronizeStream(const c10::Stream& s) const override {
    reported([&] { synchronize(simulated(s.device_index()), stream_of(s.device_index(), s.id())); });
  }
  bool queryStream(const c10::Stream&) const override { return false; }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

 private:
  static c10::DeviceIndex index(c10::Device d) { return d.has_index() ? d.index() : current; }
  static c10::Stream at(c10::Device d, std::int64_t id) {
    return c10::Stream(c10::Stream::UNSAFE, {kType, index(d)}, id);
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

Stream current_stream(c10::DeviceIndex device) { return stream_of(device, streams[device]); }

void free_memory(void* memory) {
  if (memory != nullptr) release(simulated(0), memory);
}

class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = bytes == 0 ? nullptr : reported([&] {
      return musaic::allocate(simulated(current), static_cast<std::int64_t>(bytes));
    });
    return {memory, memory, free_memory, {kType, current}};
  }
  c10::DeleterFnPtr raw_deleter() const override { return free_memory; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    copy_on_device(simulated(current), to, from, static_cast<std::int64_t>(bytes), current_stream(current));
  }
};
Memory memory;
REGISTER_ALLOCATOR(kType, &memory);

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isAvailable() const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  void setCurrentDevice(c10::DeviceIndex d) const override { current = d; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex d) const override { return std::exchange(current, d); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex d) const override {
    return std::exchange(current, d);
  }
  /// Random numbers are the host's.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }
};

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(c10::Device(kType, device && device->has_index() ? device->index() : current));
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &memory,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(c10::Device(kType, device && device->has_index() ? device->index() : current));
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                           &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

/// The whole span of a tensor's elements, gaps included.
std::int64_t span_bytes(const at::Tensor& t) {
  return t.numel() == 0 ? 0
                        : static_cast<std::int64_t>(
                              at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.dtype().itemsize()));
}

/// Set while an operator of torch runs on the host: it may take in an output that nothing wrote yet.
thread_local bool falling_back = false;

/// The same bytes with the same strides on the host.
at::Tensor mirror(const at::Tensor& t) {
  const std::int64_t bytes = span_bytes(t);
  const at::Tensor host = at::empty_strided(t.sizes(), t.strides(), t.options().device(c10::kCPU));
  reported([&] {
    const musaic::Device device = simulated(t.device().index());
    const Stream stream = current_stream(t.device().index());
    if (falling_back) {
      synchronize(device, stream);
      if (bytes > 0)
        std::memcpy(host.mutable_data_ptr(), t.const_data_ptr(), static_cast<std::size_t>(bytes));
    } else {
      copy_to_host(device, host.mutable_data_ptr(), t.const_data_ptr(), bytes, stream, true);
    }
  });
  return host;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  const bool same = from.scalar_type() == to.scalar_type() && from.sizes() == to.sizes();
  if (from.device().is_cpu()) {
    // What `to` skips between its elements is kept.
    const bool dense = to.is_non_overlapping_and_dense();
    at::Tensor host =
        dense ? at::empty_strided(to.sizes(), to.strides(), to.options().device(c10::kCPU)) : mirror(to);
    host.copy_(from);
    reported([&] {
      copy_to_device(simulated(to.device().index()), to.mutable_data_ptr(), host.const_data_ptr(),
                     span_bytes(to), current_stream(to.device().index()), true);
    });
  } else if (to.device().is_cpu()) {
    to.copy_(mirror(from));
  } else if (same && from.device() == to.device() && from.is_contiguous() && to.is_contiguous()) {
    copy_on_device(simulated(to.device().index()), to.mutable_data_ptr(), from.const_data_ptr(),
                   span_bytes(to), current_stream(to.device().index()));
  } else {
    copy_from(mirror(from), to, false);
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.numel() == 0) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat>) {
  at::TensorImpl* impl = self.unsafeGetTensorImpl();
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  const std::size_t wanted = at::detail::computeStorageNbytesContiguous(
      sizes, self.dtype().itemsize(), static_cast<std::size_t>(self.storage_offset()));
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (storage->nbytes() < wanted) {
    const c10::DeviceGuard guard(self.device());
    c10::DataPtr data = memory.allocate(wanted);
    reported([&] {
      copy_on_device(simulated(current), data.get(), storage->data(),
                     static_cast<std::int64_t>(storage->nbytes()), current_stream(current));
    });
    storage->set_data_ptr_noswap(std::move(data));
    storage->set_nbytes(wanted);
  }
  impl->set_sizes_contiguous(sizes);
  return self;
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset ? std::optional<std::int64_t>(offset->expect_int()) : std::nullopt);
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

at::Scalar local_scalar(const at::Tensor& self) { return mirror(self.reshape({1})).item(); }

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const bool before = std::exchange(falling_back, true);
  try {
    at::native::cpu_fallback(op, stack);
  } catch (...) {
    falling_back = before;
    throw;
  }
  falling_back = before;
}

const Vendor kVendor{"simulated mp_31, not hardware", DeviceType::kSimt,
                     [](const c10::Stream& s) -> void* { return stream_of(s.device_index(), s.id()).handle; },
                     host_random_state};

[[maybe_unused]] const bool registered = [] {
  find_device("simt:musa-mp31");
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  set_vendor(kType, kVendor);
  return true;
}();

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("resize_", TORCH_FN(resize));
  m.impl("as_strided", TORCH_FN(as_strided));
  m.impl("view", TORCH_FN(view));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar));
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

// What the Python side asks for.
TORCH_LIBRARY(musaic_simulated, m) {
  m.def("launch_count() -> int", []() -> std::int64_t { return simt::launch_count(); });
  m.def("synchronize(int device) -> ()", [](std::int64_t device) {
    reported([&] { check(simulated(static_cast<c10::DeviceIndex>(device)), {}); });
  });
  m.def("current_device() -> int", []() -> std::int64_t { return current; });
  m.def("set_device(int device) -> ()",
        [](std::int64_t device) { current = static_cast<c10::DeviceIndex>(device); });
}

}  // namespace musaic::torch_adapter
