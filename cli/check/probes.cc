#include "cli/check/probes.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "backends/backend.h"
#include "cli/check/probe_args.h"
#include "testing/number.h"

#if defined(MUSAIC_HAS_SIMT)
#include "backends/simt/device.h"
#endif

namespace musaic {

#define MUSAIC_CPU_PATH(ns, path, test)         \
  namespace ns {                                \
  void probe_rows(const RowProbeArgs&, Stream); \
  }
#include "backends/cpu/paths.inc"
#undef MUSAIC_CPU_PATH
#define MUSAIC_GPU_UNIT(ns, backend)            \
  namespace ns {                                \
  void probe_rows(const RowProbeArgs&, Stream); \
  void probe_gpu(const GpuProbeArgs&, Stream);  \
  }
#include "probe/gpu_units.inc"
#undef MUSAIC_GPU_UNIT

namespace checks {

ProbeKernels probe_kernels(Device device) {
  const std::string backend = backend_for(device).name, path = cpu_path();
#define MUSAIC_GPU_UNIT(ns, name) \
  if (backend == name) return {ns::probe_rows, ns::probe_gpu};
#include "probe/gpu_units.inc"
#undef MUSAIC_GPU_UNIT
#define MUSAIC_CPU_PATH(ns, name, test) \
  if (device.type == DeviceType::kCpu && path == name) return {ns::probe_rows, nullptr};
#include "backends/cpu/paths.inc"
#undef MUSAIC_CPU_PATH
  return {};
}

namespace {

/// Memory of a device with the elements that the host gives it.
template <class T>
class Array {
 public:
  Array(Device device, const std::vector<T>& values)
      : device_(device), size_(values.size()), data_(static_cast<T*>(allocate(device, bytes()))) {
    copy_to_device(device, data_, values.data(), bytes());
  }
  ~Array() { release(device_, data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  T* data() const { return data_; }
  std::vector<T> get() const {
    std::vector<T> values(size_);
    synchronize(device_);
    copy_to_host(device_, values.data(), data_, bytes());
    return values;
  }

 private:
  std::int64_t bytes() const { return static_cast<std::int64_t>(size_ * sizeof(T)); }

  Device device_;
  std::size_t size_;
  T* data_;
};

using Words = std::vector<std::uint32_t>;

struct Context {
  Device device;
  ProbeKernels kernels;
  std::mt19937_64 random;

  /// The words at `out` after a GPU probe.
  Words gpu(GpuProbe probe, const Words& before, std::int64_t offset = 0) const {
    const Array<std::uint32_t> out(device, before), memory(device, Words(66, 0));
    kernels.gpu({probe, out.data() - offset, memory.data(), offset, 0}, {});
    return out.get();
  }
};

std::string text(const char* format, double a = 0, double b = 0, double c = 0, double d = 0) {
  char line[200];
  std::snprintf(line, sizeof line, format, a, b, c, d);
  return line;
}

/// Numbers of all magnitudes, subnormals and zeros among them, and many near one, where halves are met.
std::vector<float> numbers(std::mt19937_64& random, std::size_t n) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) {
    auto bits = static_cast<std::uint32_t>(random());
    if (i % 4 == 0) bits = (bits & 0x80ffffffu) | 0x3f000000u;  // from 1/2 to 2
    if (i % 16 == 1) bits &= 0x807fffffu;                       // below 2^-126
    if (i % 64 == 2) bits &= 0x80000000u;
    std::memcpy(&v[i], &bits, 4);
    if (std::isnan(v[i])) v[i] = 1.5f;
  }
  return v;
}

/// The empty text if every element of out is the reference's, to the bit; NaN stands for NaN.
std::string float_probe(Context& x, RowProbe probe, const std::vector<float>& a, const std::vector<float>& b,
                        const std::vector<float>& c,
                        const std::function<float(float, float, float)>& reference) {
  const Array<float> da(x.device, a), db(x.device, b), dc(x.device, c),
      out(x.device, std::vector<float>(a.size()));
  x.kernels.rows({probe, static_cast<std::int64_t>(a.size()), da.data(), db.data(), dc.data(), out.data()},
                 {});
  const std::vector<float> got = out.get();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float want = reference(a[i], b[i], c[i]);
    if (std::isnan(want) ? std::isnan(got[i]) : std::memcmp(&want, &got[i], 4) == 0) continue;
    return text("of %.9g, %.9g, %.9g: %.9g", a[i], b[i], c[i], got[i]) + text(", expected %.9g", want);
  }
  return "";
}

constexpr std::size_t kCount = 8000;

std::string fma_rounding(Context& x, RowProbe probe,
                         const std::function<float(float, float, float)>& reference) {
  const std::vector<float> a = numbers(x.random, kCount), b = numbers(x.random, kCount);
  std::vector<float> c = numbers(x.random, kCount);
  // Where c is the rounded product, one rounding leaves its error and two leave nothing.
  for (std::size_t i = 0; i < kCount; i += 2) c[i] = std::isfinite(a[i] * b[i]) ? -(a[i] * b[i]) : 1.0f;
  return float_probe(x, probe, a, b, c, reference);
}

std::string simple(Context& x, RowProbe probe, const std::function<float(float, float, float)>& reference) {
  const std::vector<float> a = numbers(x.random, kCount), b = numbers(x.random, kCount);
  return float_probe(x, probe, a, b, b, reference);
}

/// Products around 2^-126: subnormal arguments, subnormal results.
std::string subnormals(Context& x) {
  std::vector<float> a(kCount), b(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto mantissa = static_cast<std::uint32_t>(x.random()) & 0x807fffffu;
    const std::uint32_t bits =
        i % 2 == 0 ? mantissa : mantissa | 0x00800000u * static_cast<std::uint32_t>(1 + i % 5);
    std::memcpy(&a[i], &bits, 4);
    b[i] = std::ldexp(1.0f + static_cast<float>(i) * 1e-4f,
                      i % 2 == 0 ? static_cast<int>(i % 30) : -static_cast<int>(i % 20));
  }
  return float_probe(x, RowProbe::kProduct, a, b, b, [](float p, float q, float) { return p * q; });
}

/// Every code to float32, and float32 around every code and its subnormals back.
std::string conversions(Context& x, DType dtype, RowProbe widen, RowProbe narrow) {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  const Array<std::uint16_t> in(x.device, codes), back(x.device, codes);
  const Array<float> wide(x.device, std::vector<float>(codes.size()));
  x.kernels.rows({widen, 65536, in.data(), nullptr, nullptr, wide.data()}, {});
  const std::vector<float> got = wide.get();
  std::vector<float> between(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const double want = testing::to_double(&codes[i], dtype);
    if (!(std::isnan(want) ? std::isnan(got[i])
                           : want == got[i] && std::signbit(want) == std::signbit(got[i])))
      return text("code %.0f is %.9g, expected %.9g", static_cast<double>(i), got[i], want);
    const auto next = static_cast<std::uint16_t>((i & 0x7fff) == 0x7fff ? i : i + 1);
    const double middle = (want + testing::to_double(&next, dtype)) / 2;
    between[i] = std::isfinite(middle) ? static_cast<float>(middle) : 1.0f;
    if (i % 3 == 1) between[i] = std::nextafter(between[i], 0.0f);
  }
  const Array<float> halves(x.device, between);
  x.kernels.rows({narrow, 65536, halves.data(), nullptr, nullptr, back.data()}, {});
  const std::vector<std::uint16_t> rounded = back.get();
  for (std::size_t i = 0; i < codes.size(); ++i) {
    std::uint16_t want = 0;
    testing::from_double(&want, dtype, between[i]);
    if (rounded[i] != want)
      return text("%.9g has the code %.0f, expected %.0f", between[i], rounded[i], want);
  }
  return "";
}

std::string half(Context& x) { return conversions(x, kFloat16, RowProbe::kWidenHalf, RowProbe::kNarrowHalf); }
std::string bfloat16(Context& x) {
  return conversions(x, kBFloat16, RowProbe::kWidenBFloat16, RowProbe::kNarrowBFloat16);
}

std::string exchange(Context& x) {
  const Words got = x.gpu(GpuProbe::kExchange, Words(kExchanges * 128, 0));
  for (std::uint32_t e = 0; e < kExchanges; ++e)
    for (std::uint32_t t = 0; t < 128; ++t) {
      const std::uint32_t from = e < 5 ? t ^ (1u << e) : e == 5 ? (t & ~31u) + 5 : t % 32 < 3 ? t : t - 3;
      if (got[e * 128 + t] != 7 * from + 1)
        return text("exchange %.0f, thread %.0f got the value of thread %.0f, expected that of %.0f", e, t,
                    (got[e * 128 + t] - 1.0) / 7, from);
    }
  return "";
}

std::string warp_size(Context& x) {
  const std::uint32_t device = x.gpu(GpuProbe::kWarpSize, Words(1, 0))[0];
  if (device % 32 != 0 || device == 0) return text("warpSize in a kernel is %.0f, no multiple of 32", device);
  std::string seen = text("warpSize in a kernel is %.0f", device);
#if defined(MUSAIC_HAS_SIMT)
  if (x.device.type == DeviceType::kSimt) {
    const int host = simt::properties(x.device.index).warp_size;
    seen +=
        text(", the host's property %.0f, the hardware's %.0f", host, simt::current_target().hardware_warp);
    if (host != static_cast<int>(device))
      seen += ": they differ, and nothing here is computed from the host's";
  }
#endif
  return "+" + seen;
}

std::string atomics(Context& x) {
  const Words got = x.gpu(GpuProbe::kAtomics, Words(3, 0));
  if (got[0] == 1024 && got[2] == 1) return "";
  return text("%.0f of 1024 additions, %.0f threads swapped the flag", got[0], got[2]);
}

std::string handshake(Context& x) {
  const Words got = x.gpu(GpuProbe::kHandshake, Words(2, 0));
  if (got[1] != 0) return "a block waited too long for the other's flag";
  constexpr std::uint32_t kWords = 64 * kProbeRounds;
  return got[0] == kWords ? ""
                          : text("%.0f of %.0f words were those that the flag announced", got[0], kWords);
}

std::string shared(Context& x) {
  const std::int64_t has = device_properties(x.device).shared_bytes_per_block;
  if (has < kProbeSharedBytes) return text("a block has %.0f bytes", static_cast<double>(has));
  for (const std::uint32_t right : x.gpu(GpuProbe::kShared, Words(8, 0)))
    if (right != kProbeSharedBytes / 4) return text("%.0f right words of %.0f", right, kProbeSharedBytes / 4);
  return text("+a block has %.0f bytes", static_cast<double>(has));
}

std::string parameters(Context& x) {
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < 512; ++i) sum += i * i + 1;
  const std::uint32_t got = x.gpu(GpuProbe::kParameters, Words(1, 0))[0];
  return got == sum ? "" : text("the sum is %.0f, expected %.0f", got, sum);
}

std::string offsets(Context& x) {
  for (const std::int64_t offset : {std::int64_t{1} << 33, -(std::int64_t{1} << 31) - 5}) {
    const Words got = x.gpu(GpuProbe::kOffset, Words(256, 9999), offset);
    for (std::uint32_t i = 0; i < 256; ++i)
      if (got[i] != i) return text("element %.0f is %.0f", i, got[i]);
  }
  return "";
}

/// Streams of a device, destroyed at the end.
class OwnedStream {
 public:
  explicit OwnedStream(Device device) : device_(device), stream_(create_stream(device)) {}
  ~OwnedStream() { destroy_stream(device_, stream_); }
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  operator Stream() const { return stream_; }

 private:
  Device device_;
  Stream stream_;
};

std::string event_order(Context& x) {
  const OwnedStream first(x.device), second(x.device);
  const Event written = create_event(x.device), read = create_event(x.device);
  std::string wrong;
  for (std::uint32_t round = 1; round <= 8 && wrong.empty(); ++round) {
    const Array<std::uint32_t> out(x.device, Words(2, 0));
    x.kernels.gpu({GpuProbe::kSlowWrite, out.data(), nullptr, 0, 100 * round}, first);
    record(x.device, written, first);
    wait(x.device, second, written);
    x.kernels.gpu({GpuProbe::kNext, out.data(), nullptr, 0, 0}, second);
    record(x.device, read, second);
    wait(x.device, first, read);
    synchronize(x.device, first);
    const std::uint32_t got = out.get()[1];
    if (got != 100 * round + 1)
      wrong = text("the second stream got %.0f, expected %.0f", got, 100 * round + 1);
  }
  destroy_event(x.device, written);
  destroy_event(x.device, read);
  return wrong;
}

std::string graph_replay(Context& x) {
  const OwnedStream stream(x.device);
  const Array<std::uint32_t> out(x.device, Words(2, 0));
  begin_capture(x.device, stream);
  x.kernels.gpu({GpuProbe::kIncrement, out.data(), nullptr, 0, 0}, stream);
  x.kernels.gpu({GpuProbe::kNext, out.data(), nullptr, 0, 0}, stream);
  const Graph graph = end_capture(x.device, stream);
  for (int i = 0; i < 3; ++i) replay(x.device, graph, stream);
  synchronize(x.device, stream);
  const Words got = out.get();
  destroy_graph(x.device, graph);
  if (got[0] == 3 && got[1] == 4) return "";
  return text("after three replays: %.0f and %.0f, expected 3 and 4", got[0], got[1]);
}

struct Entry {
  const char *name, *fact;
  bool needs_gpu;
  DType dtype;
  /// The empty text if it holds; so does "+..." with what was seen.
  std::function<std::string(Context&)> run;
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      {"fma-rounding", "a b + c by fma rounds once", false, kFloat32,
       [](Context& x) {
         return fma_rounding(x, RowProbe::kFma, [](float a, float b, float c) { return std::fma(a, b, c); });
       }},
      {"no-contraction", "a b + c rounds twice", false, kFloat32,
       [](Context& x) {
         return fma_rounding(x, RowProbe::kProductAndSum, [](float a, float b, float c) {
           const volatile float product = a * b;
           return product + c;
         });
       }},
      {"division", "division rounds correctly", false, kFloat32,
       [](Context& x) {
         return simple(x, RowProbe::kQuotient, [](float a, float b, float) { return a / b; });
       }},
      {"square-root", "the square root rounds correctly", false, kFloat32,
       [](Context& x) {
         return simple(x, RowProbe::kRoot, [](float a, float, float) { return std::sqrt(a); });
       }},
      {"subnormals-float32", "subnormal arguments and products are kept", false, kFloat32, subnormals},
      {"conversions-float16", "every code widens exactly and halves round to even, subnormals too", false,
       kFloat16, half},
      {"conversions-bfloat16", "every code widens exactly and halves round to even, subnormals too", false,
       kBFloat16, bfloat16},
      {"exchange", "exchanges within 32 lanes deliver the lane that was asked for", true, kFloat32, exchange},
      {"warp-size", "the device's warp is a multiple of 32 lanes", true, kFloat32, warp_size},
      {"atomics", "additions and swaps between blocks are not lost", true, kFloat32, atomics},
      {"handshake", "what a block wrote before it raised a flag is seen by the block that waits for it", true,
       kFloat32, handshake},
      {"shared-memory", "a block can use 28 KB of shared memory", true, kFloat32, shared},
      {"parameters", "a kernel can be passed 2 KB by value", true, kFloat32, parameters},
      {"offsets", "addresses are computed in 64 bits", true, kFloat32, offsets},
      {"event-order", "a stream that waits for an event sees what came before it", true, kFloat32,
       event_order},
      {"graph-replay", "a replayed graph runs its kernels in order on the memory of that time", true,
       kFloat32, graph_replay}};
  return all;
}

}  // namespace

std::vector<Probe> all_probes() {
  std::vector<Probe> probes;
  for (const Entry& e : entries()) probes.push_back({std::string("probe/") + e.name, e.fact});
  return probes;
}

ProbeOutcome run_probe(const Probe& probe, Device device, std::uint64_t seed, const ProbeKernels& kernels) {
  using State = ProbeOutcome::State;
  for (const Entry& e : entries()) {
    if (probe.name != std::string("probe/") + e.name) continue;
    Context x{device, kernels, std::mt19937_64(seed)};
    if (x.kernels.rows == nullptr) return {State::kNotRun, "this backend has no probes"};
    if (e.needs_gpu && x.kernels.gpu == nullptr) return {State::kNotRun, "for GPUs alone"};
    if (std::string lacks = lacks_dtype(device, e.dtype); !lacks.empty())
      return {State::kNotRun, std::move(lacks)};
    try {
      std::string result = e.run(x);
      synchronize(device);
      if (result.empty()) return {};
      if (result[0] == '+') return {State::kHolds, result.substr(1)};
      return {State::kFailed, std::move(result)};
    } catch (const std::exception& error) {
      return {State::kFailed, error.what()};
    }
  }
  throw Error("check", "probe", probe.name, "a name that musaic check --list prints");
}

void launch_nothing(Device device, Stream stream) {
  const ProbeKernels kernels = probe_kernels(device);
  if (kernels.gpu != nullptr) return kernels.gpu({GpuProbe::kNothing, nullptr, nullptr, 0, 0}, stream);
  alignas(32) static float memory[4][8] = {};
  if (kernels.rows != nullptr)
    kernels.rows({RowProbe::kProduct, 8, memory[0], memory[1], memory[2], memory[3]}, stream);
}

}  // namespace checks
}  // namespace musaic
