// Compares the bytes that every row operator writes, on an NVIDIA GPU and on each instruction set of the CPU:
// whole buffers, with the gaps between strided rows and guards on both sides. Then the elementary functions
// over float bits, and the time of three operators against a device copy. Exit status 1 if a byte differs.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "musaic/musaic.h"
#include "testing/math_args.h"

namespace musaic {

namespace MUSAIC_TARGET {
extern const OpTable op_table;
void evaluate_math(const MathArgs&, Stream);
}  // namespace MUSAIC_TARGET
#define MUSAIC_CPU_PATH(ns, path, test)        \
  namespace ns {                               \
  void evaluate_math(const MathArgs&, Stream); \
  }
#include "backends/cpu/paths.inc"
#undef MUSAIC_CPU_PATH

namespace {

constexpr std::size_t kGuard = 256;
constexpr DType kFloats[] = {kFloat32, kFloat16, kBFloat16};
constexpr Device kGpu{DeviceType::kCuda, 0};

void cuda_check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("cuda_row_bits: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}
#define CUDA_CHECK(call) cuda_check(call, #call)

std::mt19937_64& rng() {
  static std::mt19937_64 generator;
  return generator;
}
std::int64_t pick(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(rng());
}

enum class Fill {
  kNumbers,    // either sign, magnitudes from 2^-6 to 2^4
  kUnit,       // magnitudes from 2^-8 to 1
  kBits,       // any bit pattern: infinities, NaNs, subnormals
  kSprinkled,  // numbers, of which one in 500 is any bit pattern
  kSums,       // numbers, one in eight an infinity or NaN; float32
  kCount,      // the bit patterns 0, 1, 2, ... in order
  kOnes,
  kPositions,  // int32 or int64, one in thirty outside [0, 64)
};

struct Spec {
  DType dtype;
  std::vector<std::int64_t> shape;
  Fill fill;
  bool output = false;
  std::vector<std::int64_t> strides = {};
  std::int64_t shift = 0;  // elements off a 256-byte boundary
};

std::uint32_t number_bits(DType t, int low, int high) {
  const std::uint64_t r = rng()();
  const int exponent = low + static_cast<int>((r >> 40) % static_cast<std::uint64_t>(high - low + 1));
  const int mantissa = t == kFloat32 ? 23 : t == kFloat16 ? 10 : 7, bias = t == kFloat16 ? 15 : 127;
  const std::uint32_t sign = static_cast<std::uint32_t>(r >> 63) << (t == kFloat32 ? 31 : 15);
  return sign | static_cast<std::uint32_t>(bias + exponent) << mantissa |
         (static_cast<std::uint32_t>(r) & ((1u << mantissa) - 1));
}

/// Element i of a buffer, in the low bits.
std::uint64_t element_bits(const Spec& s, std::int64_t i) {
  switch (s.fill) {
    case Fill::kNumbers:
      return number_bits(s.dtype, -6, 3);
    case Fill::kUnit:
      return number_bits(s.dtype, -8, -1);
    case Fill::kBits:
      return rng()();
    case Fill::kSprinkled:
      return rng()() % 500 == 0 ? rng()() : number_bits(s.dtype, -6, 3);
    case Fill::kSums: {
      static constexpr std::uint32_t kSpecial[] = {0x7f800000u, 0xff800000u, 0x7fc00000u};
      return rng()() % 8 == 0 ? kSpecial[rng()() % 3] : number_bits(s.dtype, -3, 4);
    }
    case Fill::kCount:
      return static_cast<std::uint64_t>(i);
    case Fill::kOnes:
      return s.dtype == kFloat32 ? 0x3f800000u : s.dtype == kFloat16 ? 0x3c00u : 0x3f80u;
    case Fill::kPositions:
      return static_cast<std::uint64_t>(rng()() % 30 == 0 ? pick(-3, 200) : pick(0, 63));
  }
  return 0;
}

/// A tensor's memory as it was filled, and where the tensor lies in it.
struct Image {
  Spec spec;
  std::vector<unsigned char> bytes;
  std::size_t at;

  explicit Image(const Spec& s) : spec(s), at(kGuard) {
    const Tensor t = view(nullptr, Device{});
    std::int64_t reach = 0;
    for (int d = 0; d < t.ndim(); ++d) reach += (t.size(d) - 1) * t.stride(d);
    const auto item = static_cast<std::size_t>(size_bytes(s.dtype));
    const std::size_t body = t.numel() > 0 ? static_cast<std::size_t>(reach + 1) * item : 0;
    at += static_cast<std::size_t>(s.shift) * item;
    bytes.assign(at + body + kGuard, 0xff);
    std::vector<std::int64_t> index(s.shape.size(), 0);
    for (std::int64_t i = 0; i < t.numel(); ++i) {
      std::int64_t offset = 0;
      for (int d = 0; d < t.ndim(); ++d) offset += index[static_cast<std::size_t>(d)] * t.stride(d);
      const std::uint64_t bits = element_bits(s, i);
      std::memcpy(bytes.data() + at + static_cast<std::size_t>(offset) * item, &bits, item);
      for (std::size_t d = s.shape.size(); d-- > 0 && ++index[d] == s.shape[d];) index[d] = 0;
    }
  }

  Tensor view(unsigned char* memory, Device device) const {
    return Tensor(memory == nullptr ? nullptr : memory + at, spec.dtype, spec.shape.data(),
                  spec.strides.empty() ? nullptr : spec.strides.data(), static_cast<int>(spec.shape.size()),
                  device);
  }
};

struct Tally {
  std::int64_t cases = 0, elements = 0, bad_elements = 0, bad_cases = 0;
};
std::map<std::string, std::map<std::string, Tally>> results;  // operator, then other target
std::vector<std::string> order;

/// Device memory that grows and is kept.
class Arena {
 public:
  unsigned char* take(std::size_t index, std::size_t bytes) {
    if (slots_.size() <= index) slots_.resize(index + 1);
    Slot& s = slots_[index];
    if (s.bytes < bytes) {
      if (s.data != nullptr) CUDA_CHECK(cudaFree(s.data));
      CUDA_CHECK(cudaMalloc(&s.data, bytes));
      s.bytes = bytes;
    }
    return static_cast<unsigned char*>(s.data);
  }

 private:
  struct Slot {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  std::vector<Slot> slots_;
};
Arena arena;

using Call = std::function<void(const std::vector<Tensor>&)>;

struct Outcome {
  std::vector<std::vector<unsigned char>> memory;
  std::string fault;  // the record's text up to the value, which may be that of any bad row
};

std::string fault_of(Device device) {
  try {
    check(device);
  } catch (const Error& e) {
    return e.where() + ": " + e.argument();
  }
  return "";
}

Outcome on_cpu(const std::vector<Image>& images, const Call& call) {
  Outcome o;
  std::vector<std::vector<unsigned char>> aligned(images.size());
  std::vector<Tensor> tensors;
  std::vector<unsigned char*> memory;
  for (std::size_t i = 0; i < images.size(); ++i) {
    aligned[i].resize(images[i].bytes.size() + 256);
    unsigned char* base = aligned[i].data();
    base += (256 - reinterpret_cast<std::uintptr_t>(base) % 256) % 256;
    std::memcpy(base, images[i].bytes.data(), images[i].bytes.size());
    memory.push_back(base);
    tensors.push_back(images[i].view(base, Device{}));
  }
  call(tensors);
  o.fault = fault_of(Device{});
  for (std::size_t i = 0; i < images.size(); ++i)
    o.memory.emplace_back(memory[i], memory[i] + images[i].bytes.size());
  return o;
}

Outcome on_gpu(const std::vector<Image>& images, const Call& call) {
  Outcome o;
  std::vector<Tensor> tensors;
  std::vector<unsigned char*> memory;
  for (std::size_t i = 0; i < images.size(); ++i) {
    memory.push_back(arena.take(i, images[i].bytes.size()));
    CUDA_CHECK(cudaMemcpy(memory[i], images[i].bytes.data(), images[i].bytes.size(), cudaMemcpyHostToDevice));
    tensors.push_back(images[i].view(memory[i], kGpu));
  }
  call(tensors);
  CUDA_CHECK(cudaDeviceSynchronize());
  o.fault = fault_of(kGpu);
  for (std::size_t i = 0; i < images.size(); ++i) {
    o.memory.emplace_back(images[i].bytes.size());
    CUDA_CHECK(cudaMemcpy(o.memory[i].data(), memory[i], images[i].bytes.size(), cudaMemcpyDeviceToHost));
  }
  return o;
}

void compare(const std::string& op, const std::string& target, const std::vector<Image>& images,
             const Outcome& right, const Outcome& other) {
  Tally& tally = results[op][target];
  ++tally.cases;
  bool bad = right.fault != other.fault;
  if (bad)
    std::printf("%s: fault \"%s\" on %s, \"%s\" on the first\n", op.c_str(), other.fault.c_str(),
                target.c_str(), right.fault.c_str());
  for (std::size_t i = 0; i < images.size(); ++i) {
    if (images[i].spec.output) tally.elements += images[i].view(nullptr, Device{}).numel();
    if (right.memory[i] == other.memory[i]) continue;
    bad = true;
    const auto item = static_cast<std::size_t>(size_bytes(images[i].spec.dtype));
    std::int64_t first = -1, count = 0;
    for (std::size_t b = 0; b + item <= right.memory[i].size(); b += item)
      if (std::memcmp(right.memory[i].data() + b, other.memory[i].data() + b, item) != 0) {
        if (count++ == 0) first = static_cast<std::int64_t>(b);
      }
    tally.bad_elements += count;
    if (tally.bad_cases < 5) {
      std::uint32_t a = 0, c = 0;
      std::memcpy(&a, right.memory[i].data() + first, item);
      std::memcpy(&c, other.memory[i].data() + first, item);
      std::printf(
          "%s on %s: argument %d %s %s: %lld elements differ, first at byte %lld: %08x, right %08x\n",
          op.c_str(), target.c_str(), static_cast<int>(i), to_string(images[i].spec.dtype).c_str(),
          shape_to_string(images[i].spec.shape.data(), static_cast<int>(images[i].spec.shape.size())).c_str(),
          static_cast<long long>(count), static_cast<long long>(first) - static_cast<long long>(images[i].at),
          c, a);
    }
  }
  if (bad) ++tally.bad_cases;
}

bool with_gpu = true;

/// Runs a case on every target and compares all with the first.
void run(const std::string& op, const std::vector<Spec>& specs, const Call& call) {
  if (results.find(op) == results.end()) order.push_back(op);
  const std::vector<Image> images(specs.begin(), specs.end());
  Outcome right;
  bool first = true;
  for (const cpu::Path& p : cpu::paths()) {
    if (!p.supported()) continue;
    cpu::force_path(p.name);
    Outcome o = on_cpu(images, call);
    if (first)
      right = std::move(o);
    else
      compare(op, p.name, images, right, o);
    first = false;
  }
  if (with_gpu) compare(op, "gpu", images, right, on_gpu(images, call));
}

constexpr std::int64_t kLengths[] = {1,    2,    3,    7,    8,    9,     16,    31,    33,   64,
                                     96,   111,  128,  255,  256,  257,   500,   576,   769,  1000,
                                     1024, 1025, 2047, 2048, 2049, 2056,  3584,  4096,  5120, 7168,
                                     8191, 8192, 8193, 8200, 9001, 16384, 16385, 24576, 40001};

std::vector<std::int64_t> row_strides(std::int64_t n, bool strided) {
  return strided ? std::vector<std::int64_t>{n + pick(1, 40), 1} : std::vector<std::int64_t>{};
}

void norms() {
  for (DType t : kFloats)
    for (std::int64_t n : kLengths)
      for (int variant = 0; variant < 6; ++variant) {
        const std::int64_t rows = n < 600 ? pick(1, 200) : pick(1, 1 + 400000 / n);
        const bool strided = variant % 2 == 1;
        const Fill fill = variant == 4 ? Fill::kSprinkled : variant == 5 ? Fill::kBits : Fill::kNumbers;
        const auto row = [&](bool output) {
          return Spec{t, {rows, n}, fill, output, row_strides(n, strided), strided ? pick(0, 7) : 0};
        };
        const DType weight = kFloats[pick(0, 2)];
        const Spec w{weight, {n}, Fill::kNumbers, false, {}, strided ? pick(0, 7) : 0};
        const bool has_weight = variant != 2;
        const double eps = 1e-6;
        const auto weight_of = [has_weight](const Tensor& x) { return has_weight ? x : Tensor(); };
        run("rmsnorm", {row(true), row(false), w},
            [&](const auto& a) { rmsnorm(a[0], a[1], weight_of(a[2]), eps); });
        run("gemma_rmsnorm", {row(true), w},
            [&](const auto& a) { gemma_rmsnorm(a[0], a[0], weight_of(a[1]), eps); });
        run("fused_add_rmsnorm", {row(true), row(true), w},
            [&](const auto& a) { fused_add_rmsnorm(a[0], a[1], weight_of(a[2]), eps); });
        run("gemma_fused_add_rmsnorm", {row(true), row(true), w},
            [&](const auto& a) { gemma_fused_add_rmsnorm(a[0], a[1], weight_of(a[2]), eps); });
      }
}

void activations() {
  const struct {
    const char* name;
    void (*call)(const Tensor&, const Tensor&, Stream);
  } forms[] = {{"silu_and_mul", &silu_and_mul},
               {"gelu_and_mul", &gelu_and_mul},
               {"gelu_tanh_and_mul", &gelu_tanh_and_mul}};
  for (const auto& form : forms)
    for (DType t : kFloats) {
      // Every 16-bit gate (and as many float32 patterns from 0 on) with a factor of one.
      run(form.name, {{t, {1, 65536}, Fill::kOnes, true}, {t, {2, 65536}, Fill::kCount, false}},
          [&](const auto& a) {
            const Tensor pair(a[1].data(), a[1].dtype(), {1, 131072}, a[1].device());
            form.call(a[0], pair, {});
          });
      for (std::int64_t d : kLengths)
        for (int variant = 0; variant < 4; ++variant) {
          const std::int64_t rows = d < 600 ? pick(1, 200) : pick(1, 1 + 400000 / d);
          const bool strided = variant % 2 == 1;
          const Spec in{t,
                        {rows, 2 * d},
                        variant < 2 ? Fill::kSprinkled : Fill::kBits,
                        variant == 3,
                        row_strides(2 * d, strided),
                        strided ? pick(0, 7) : 0};
          if (variant == 3) {  // in place
            run(form.name, {in}, [&](const auto& a) { form.call(a[0].slice(1, 0, d), a[0], {}); });
          } else {
            run(form.name,
                {{t, {rows, d}, Fill::kOnes, true, row_strides(d, strided), strided ? pick(0, 7) : 0}, in},
                [&](const auto& a) { form.call(a[0], a[1], {}); });
          }
        }
      run(form.name, {{t, {256, 4096}, Fill::kOnes, true}, {t, {256, 8192}, Fill::kBits, false}},
          [&](const auto& a) { form.call(a[0], a[1], {}); });
    }
}

void rotations() {
  for (bool is_neox : {true, false})
    for (DType t : kFloats)
      for (std::int64_t r : {2, 6, 16, 18, 30, 64, 80, 96, 112, 128, 192, 256})
        for (std::int64_t d : {r, r + 1, 2 * r, std::int64_t{512}})
          for (int variant = 0; variant < 4; ++variant) {
            const std::int64_t tokens = pick(1, 60), q_heads = pick(1, 40), k_heads = pick(1, 8);
            const bool strided = variant % 2 == 1;
            const auto heads = [&](std::int64_t count) {
              const std::int64_t head = d + (strided ? pick(0, 9) : 0),
                                 token = count * head + (strided ? pick(0, 99) : 0);
              return Spec{t,    {tokens, count, d}, variant == 2 ? Fill::kBits : Fill::kNumbers,
                          true, {token, head, 1},   strided ? pick(0, 7) : 0};
            };
            run(is_neox ? "rotary_embedding neox" : "rotary_embedding interleaved",
                {heads(q_heads),
                 heads(k_heads),
                 {variant < 2 ? kInt64 : kInt32, {tokens}, Fill::kPositions, false},
                 {kFloats[pick(0, 2)],
                  {64, r},
                  Fill::kUnit,
                  false,
                  {r + (strided ? 5 : 0), 1},
                  strided ? 1 : 0}},
                [&](const auto& a) {
                  rotary_embedding(a[0], variant == 3 ? Tensor() : a[1], a[2], a[3], d, is_neox);
                });
          }
}

void merges() {
  for (DType t : kFloats)
    for (std::int64_t d : {1, 2, 7, 8, 9, 32, 48, 64, 80, 96, 128, 192, 256, 257, 512, 2048, 2500})
      for (int variant = 0; variant < 8; ++variant) {
        const std::int64_t tokens = pick(1, 40), heads = d > 512 ? pick(1, 8) : pick(1, 64);
        const bool strided = variant % 2 == 1;
        const auto v = [&](DType dtype, bool output) {
          const std::int64_t head = d + (strided ? pick(0, 9) : 0),
                             token = heads * head + (strided ? pick(0, 99) : 0);
          return Spec{dtype,  {tokens, heads, d}, variant == 4 ? Fill::kBits : Fill::kNumbers,
                      output, {token, head, 1},   strided ? pick(0, 7) : 0};
        };
        const auto s = [&](bool output) {
          return Spec{kFloat32,
                      {tokens, heads},
                      Fill::kSums,
                      output,
                      strided ? std::vector<std::int64_t>{1, tokens + 3} : std::vector<std::int64_t>{}};
        };
        const DType other = variant < 4 ? t : kFloats[pick(0, 2)];
        if (variant == 6)  // in place
          run("merge_state_v2", {v(t, true), s(true), v(other, false), s(false)},
              [](const auto& a) { merge_state_v2(a[0], a[1], a[0], a[1], a[2], a[3]); });
        else
          run("merge_state_v2", {v(t, true), s(true), v(t, false), s(false), v(other, false), s(false)},
              [](const auto& a) { merge_state_v2(a[0], a[1], a[2], a[3], a[4], a[5]); });
      }
}

/// Every function over `count` arguments whose bits are step apart, from a random first.
void math(const char* label, std::int64_t count, std::uint32_t step, bool baseline_too) {
  constexpr std::int64_t kPart = std::int64_t{1} << 26;
  const std::int64_t part = std::min(count, kPart);
  float *device = nullptr, *from_gpu = nullptr;
  std::vector<float> right(static_cast<std::size_t>(part)), other(static_cast<std::size_t>(part));
  if (with_gpu) {
    CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&device), static_cast<std::size_t>(part) * 4));
    CUDA_CHECK(cudaMallocHost(reinterpret_cast<void**>(&from_gpu), static_cast<std::size_t>(part) * 4));
  }
  const struct {
    const char* path;
    void (*evaluate)(const MathArgs&, Stream);
  } evaluators[] = {
#define MUSAIC_CPU_PATH(ns, path, test) {path, &ns::evaluate_math},
#include "backends/cpu/paths.inc"
#undef MUSAIC_CPU_PATH
  };
  for (int f = 0; f < kMathFunctions; ++f) {
    const std::string name = std::string(kMathNames[f]) + label;
    order.push_back(name);
    const auto tally = [&](const std::string& target, const float* values) {
      Tally& t = results[name][target];
      ++t.cases;
      t.elements += part;
      if (std::memcmp(right.data(), values, static_cast<std::size_t>(part) * 4) == 0) return;
      ++t.bad_cases;
      for (std::int64_t i = 0; i < part; ++i)
        if (std::memcmp(&right[static_cast<std::size_t>(i)], values + i, 4) != 0) {
          if (t.bad_elements++ == 0)
            std::printf("%s on %s differs: %a, first %a\n", name.c_str(), target.c_str(),
                        static_cast<double>(values[i]),
                        static_cast<double>(right[static_cast<std::size_t>(i)]));
        }
    };
    const auto start = static_cast<std::uint32_t>(rng()());
    for (std::int64_t begin = 0; begin < count; begin += part) {
      MathArgs args{f, start + static_cast<std::uint32_t>(begin) * step, step, part, device};
      if (with_gpu) {
        MUSAIC_TARGET::evaluate_math(args, {});
        CUDA_CHECK(
            cudaMemcpyAsync(from_gpu, device, static_cast<std::size_t>(part) * 4, cudaMemcpyDeviceToHost));
      }
      bool first = true;
      for (const cpu::Path& p : cpu::paths()) {
        if (!p.supported() || (!baseline_too && std::strcmp(p.name, "baseline") == 0)) continue;
        for (const auto& e : evaluators)
          if (std::strcmp(e.path, p.name) == 0) {
            args.out = first ? right.data() : other.data();
            e.evaluate(args, {});
          }
        if (!first) tally(p.name, other.data());
        first = false;
      }
      if (with_gpu) {
        CUDA_CHECK(cudaDeviceSynchronize());
        tally("gpu", from_gpu);
      }
    }
  }
  if (with_gpu) {
    CUDA_CHECK(cudaFree(device));
    CUDA_CHECK(cudaFreeHost(from_gpu));
  }
}

/// Median of 30 timings of f, in microseconds, after warming up.
double time_us(const std::function<void()>& f) {
  cudaEvent_t start, stop;
  CUDA_CHECK(cudaEventCreate(&start));
  CUDA_CHECK(cudaEventCreate(&stop));
  std::vector<float> times;
  for (int i = 0; i < 35; ++i) {
    CUDA_CHECK(cudaEventRecord(start));
    f();
    CUDA_CHECK(cudaEventRecord(stop));
    CUDA_CHECK(cudaEventSynchronize(stop));
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
    if (i >= 5) times.push_back(ms);
  }
  std::nth_element(times.begin(), times.begin() + 15, times.end());
  return static_cast<double>(times[15]) * 1000.0;
}

void times() {
  const std::int64_t rows = 16384, n = 8192;
  const std::size_t bytes = static_cast<std::size_t>(rows * n) * 2;
  void* memory[3];
  for (void*& m : memory) {
    CUDA_CHECK(cudaMalloc(&m, bytes));
    std::vector<unsigned char> numbers = Image({kBFloat16, {1 << 22}, Fill::kNumbers}).bytes;
    for (std::size_t at = 0; at < bytes; at += std::size_t{1} << 23)
      CUDA_CHECK(cudaMemcpy(static_cast<char*>(m) + at, numbers.data() + kGuard, std::size_t{1} << 23,
                            cudaMemcpyHostToDevice));
  }
  const Tensor x(memory[0], kBFloat16, {rows, n}, kGpu), y(memory[1], kBFloat16, {rows, n}, kGpu),
      z(memory[2], kBFloat16, {rows, n}, kGpu);
  const Tensor pairs(memory[0], kBFloat16, {rows / 2, 2 * n}, kGpu),
      half(memory[1], kBFloat16, {rows / 2, n}, kGpu);
  const Tensor weight(memory[2], kBFloat16, {n}, kGpu);
  const double gb = static_cast<double>(bytes) * 1e-9;
  const struct {
    const char* name;
    double traffic_gb;
    std::function<void()> f;
  } rows_of_table[] = {
      {"copy bf16 [16384, 8192]", 2 * gb,
       [&] { CUDA_CHECK(cudaMemcpyAsync(memory[1], memory[0], bytes, cudaMemcpyDeviceToDevice)); }},
      {"rmsnorm bf16 [16384, 8192]", 2 * gb, [&] { rmsnorm(y, x, weight); }},
      {"silu_and_mul bf16 [8192, 2 * 8192]", 1.5 * gb, [&] { silu_and_mul(half, pairs); }},
      {"gelu_and_mul bf16 [8192, 2 * 8192]", 1.5 * gb, [&] { gelu_and_mul(half, pairs); }},
      {"fused_add_rmsnorm bf16 [16384, 8192]", 4 * gb, [&] { fused_add_rmsnorm(x, y, weight); }},
  };
  std::printf("\n%-40s %10s %10s %14s\n", "time on the GPU", "us", "GB/s", "of the copy");
  double copy_rate = 0;
  for (const auto& r : rows_of_table) {
    const double us = time_us(r.f), rate = r.traffic_gb / us * 1e6;
    if (copy_rate == 0) copy_rate = rate;
    std::printf("%-40s %10.1f %10.0f %13.0f%%\n", r.name, us, rate, 100 * rate / copy_rate);
  }
  for (void* m : memory) CUDA_CHECK(cudaFree(m));
}

/// Prints the table; the number of targets and operators that differ.
int report() {
  int bad = 0;
  std::printf("\n%-32s %-12s %7s %14s %10s\n", "operator", "against", "cases", "elements", "differ");
  for (const std::string& op : order)
    for (const auto& [target, t] : results[op]) {
      std::printf("%-32s %-12s %7lld %14lld %10lld%s\n", op.c_str(), target.c_str(),
                  static_cast<long long>(t.cases), static_cast<long long>(t.elements),
                  static_cast<long long>(t.bad_elements), t.bad_cases > 0 ? "  DIFFERS" : "");
      bad += t.bad_cases > 0 ? 1 : 0;
    }
  return bad;
}

}  // namespace
}  // namespace musaic

int main(int argc, char** argv) {
  using namespace musaic;
  // --cpu compares the instruction sets alone; --all-floats takes every float32 through every function.
  bool all_floats = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--cpu") == 0) with_gpu = false;
    if (std::strcmp(argv[i], "--all-floats") == 0) all_floats = true;
  }
  const char* given = std::getenv("MUSAIC_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
  rng().seed(seed);
  std::printf("MUSAIC_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::string first;
  for (const cpu::Path& p : cpu::paths()) {
    std::printf("cpu path %s: %s\n", p.name, p.supported() ? "compared" : "not run: this processor lacks it");
    if (first.empty() && p.supported()) first = p.name;
  }
  std::printf("all are compared with %s\n", first.c_str());
  if (with_gpu) {
    cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    std::printf("gpu: %s, compute %d.%d\n", properties.name, properties.major, properties.minor);
    void* record = nullptr;
    CUDA_CHECK(cudaMallocHost(&record, sizeof(FaultRecord)));
    std::memset(record, 0, sizeof(FaultRecord));
    static Backend gpu{"cuda", &MUSAIC_TARGET::op_table, static_cast<FaultRecord*>(record)};
    add_backend(DeviceType::kCuda, gpu);
  }
  norms();
  activations();
  rotations();
  merges();
  math("", std::int64_t{1} << 22, 1021, true);
  if (all_floats) math(", all floats", std::int64_t{1} << 32, 1, false);
  if (with_gpu) times();
  const int bad = report();
  std::printf("\n%s\n", bad == 0 ? "every byte equal" : "THERE ARE DIFFERENCES");
  return bad == 0 ? 0 : 1;
}
