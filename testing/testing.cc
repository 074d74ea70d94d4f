#include "testing/testing.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "backends/backend.h"

#if defined(MUSAIC_HAS_SIMT)
#include "backends/simt/device.h"
#include "backends/simt/memory.h"
#endif

namespace musaic::testing {

std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* given = std::getenv("MUSAIC_SEED");
    const std::uint64_t s = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
    std::printf("MUSAIC_SEED=%llu\n", static_cast<unsigned long long>(s));
    return s;
  }();
  return value;
}

std::mt19937_64& rng() {
  static std::mt19937_64 generator;
  static std::string current = "?";
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = info != nullptr ? std::string(info->test_suite_name()) + "." + info->name() : "";
  if (name != current) {
    current = name;
    generator.seed(seed() ^ std::hash<std::string>()(name));
  }
  return generator;
}

double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(rng()); }
double normal() { return std::normal_distribution<double>()(rng()); }
std::int64_t uniform_int(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(rng());
}

namespace {

Device current_device;

std::shared_ptr<void> memory_on(Device where, std::int64_t bytes) {
  return {allocate(where, bytes), [where](void* p) { release(where, p); }};
}

}  // namespace

Buffer::Buffer(DType dtype, std::vector<std::int64_t> shape, std::int64_t offset_elements,
               std::vector<std::int64_t> strides) {
  const auto item = static_cast<std::size_t>(size_bytes(dtype));
  const auto* stride = strides.empty() ? nullptr : strides.data();
  const int ndim = static_cast<int>(shape.size());
  const Tensor t(nullptr, dtype, shape.data(), stride, ndim, Device{});
  std::int64_t reach = 0;
  for (int d = 0; d < t.ndim(); ++d) reach += (t.size(d) - 1) * t.stride(d);
  body_ = (t.numel() > 0 ? static_cast<std::size_t>(reach) + 1 : 0) * item;
  offset_ = static_cast<std::size_t>(offset_elements) * item;
  memory_.resize(2 * kGuard + 64 + offset_ + body_);
  const std::size_t base = reinterpret_cast<std::uintptr_t>(memory_.data()) % 64;
  start_ = kGuard + (64 - base) % 64 + offset_;
  host_ = Tensor(memory_.data() + start_, dtype, shape.data(), stride, ndim, Device{});
  owned_.assign(memory_.size(), false);
  for (std::int64_t i = 0; i < numel(); ++i) {
    const auto at = static_cast<std::size_t>(address(i) - memory_.data());
    for (std::size_t b = 0; b < item; ++b) owned_[at + b] = true;
  }
  poison();
}

const Tensor& Buffer::tensor() const {
  if (current_device.type == DeviceType::kCpu) {
    pull();
    return host_;
  }
  push();
  device_is_newer_ = true;
  return on_device_;
}

Tensor Buffer::view(std::int64_t first_element, std::vector<std::int64_t> shape,
                    std::vector<std::int64_t> strides) const {
  const Tensor& t = tensor();
  return Tensor(t.data_as<char>() + first_element * size_bytes(t.dtype()), t.dtype(), shape.data(),
                strides.empty() ? nullptr : strides.data(), static_cast<int>(shape.size()), t.device());
}

/// What lies on a device: the guards (none on simulated devices, which watch every access), the offset, the body.
void Buffer::push() const {
  const bool simulated = current_device.type == DeviceType::kSimt;
  const std::size_t guard = simulated ? 0 : kGuard, bytes = 2 * guard + offset_ + body_;
  if (!on_device_ || on_device_.device() != current_device) {
    pull();
    device_memory_ = memory_on(current_device, static_cast<std::int64_t>(bytes));
    on_device_ = Tensor(static_cast<char*>(device_memory_.get()) + guard + offset_, host_.dtype(),
                        host_.shape(), host_.strides(), host_.ndim(), current_device);
    host_is_newer_ = true;
  }
  if (!host_is_newer_) return;
  host_is_newer_ = false;
  const unsigned char* from = memory_.data() + start_ - offset_ - guard;
#if defined(MUSAIC_HAS_SIMT)
  if (simulated) {
    synchronize(current_device);
    auto* to = static_cast<unsigned char*>(device_memory_.get());
    std::memcpy(to, from, bytes);
    const auto first = static_cast<std::size_t>(from - memory_.data());
    for (std::size_t i = 0, n = 0; i < bytes; i += n) {
      for (n = 1; i + n < bytes && written_[first + i + n] == written_[first + i];) ++n;
      (written_[first + i] ? simt::mark_written : simt::mark_unwritten)(to + i, static_cast<std::int64_t>(n));
    }
    return;
  }
#endif
  copy_to_device(current_device, device_memory_.get(), from, static_cast<std::int64_t>(bytes));
}

void Buffer::pull() const {
  if (!device_is_newer_) return;
  device_is_newer_ = false;
  written_ = owned_;
  const Device where = on_device_.device();
  const std::size_t guard = where.type == DeviceType::kSimt ? 0 : kGuard;
  unsigned char* to = memory_.data() + start_ - offset_ - guard;
  const std::size_t bytes = 2 * guard + offset_ + body_;
  synchronize(where);
  if (where.type == DeviceType::kSimt)
    std::memcpy(to, device_memory_.get(),
                bytes);  // the host may read what nothing wrote: it finds the poison
  else
    copy_to_host(where, to, device_memory_.get(), static_cast<std::int64_t>(bytes));
}

const unsigned char* Buffer::address(std::int64_t i) const {
  std::int64_t offset = 0;
  for (int d = host_.ndim() - 1; d >= 0; --d) {
    offset += (i % host_.size(d)) * host_.stride(d);
    i /= host_.size(d);
  }
  return host_.data_as<unsigned char>() + offset * size_bytes(host_.dtype());
}

void* Buffer::element(std::int64_t i) {
  pull();
  host_is_newer_ = true;
  const auto at = static_cast<std::size_t>(address(i) - memory_.data());
  for (std::size_t b = 0; b < static_cast<std::size_t>(size_bytes(host_.dtype())); ++b)
    written_[at + b] = true;
  return memory_.data() + at;
}

double Buffer::get(std::int64_t i) const {
  pull();
  return to_double(address(i), host_.dtype());
}

Buffer& Buffer::set_bytes(const std::vector<unsigned char>& bytes) {
  pull();
  host_is_newer_ = true;
  for (std::size_t b = 0; b < bytes.size(); ++b) {
    memory_[start_ + b] = bytes[b];
    written_[start_ + b] = true;
  }
  return *this;
}

Buffer& Buffer::fill(const std::function<double(std::int64_t)>& value) {
  for (std::int64_t i = 0; i < numel(); ++i) set(i, value(i));
  return *this;
}

Buffer& Buffer::fill_normal(double scale) {
  return fill([&](std::int64_t) { return scale * normal(); });
}

Buffer& Buffer::poison() {
  // 0x7f7f7f7f is a large float32 but 0x7f repeated is no NaN there; ff repeated is a NaN in every float
  // format.
  const DType t = host_.dtype();
  const bool is_float = t.code == kFloat32.code || t.code >= kBFloat16.code;
  device_is_newer_ = false;
  host_is_newer_ = true;
  std::memset(memory_.data(), is_float && t != kBool ? 0xff : 0x7f, memory_.size());
  pattern_ = memory_;
  written_.assign(memory_.size(), false);
  return *this;
}

std::vector<double> Buffer::values() const {
  std::vector<double> v(static_cast<std::size_t>(numel()));
  for (std::int64_t i = 0; i < numel(); ++i) v[static_cast<std::size_t>(i)] = get(i);
  return v;
}

std::vector<unsigned char> Buffer::bytes() const {
  pull();
  const auto item = static_cast<std::size_t>(size_bytes(host_.dtype()));
  std::vector<unsigned char> v(static_cast<std::size_t>(numel()) * item);
  for (std::int64_t i = 0; i < numel(); ++i)
    std::memcpy(v.data() + static_cast<std::size_t>(i) * item, address(i), item);
  return v;
}

void Buffer::expect_guards_intact(const char* name) const {
  pull();
  for (std::size_t i = 0; i < memory_.size(); ++i)
    if (!owned_[i] && memory_[i] != pattern_[i]) {
      ADD_FAILURE() << name << ": guard byte written, "
                    << static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(start_)
                    << " bytes from the tensor's start";
      return;
    }
}

__attribute__((weak)) bool has_gpu_form() { return true; }

const std::vector<std::string>& targets() {
  static const std::vector<std::string> list = [] {
    std::vector<std::string> names;
    for (const cpu::Path& p : cpu::paths()) {
      if (p.supported())
        names.push_back("cpu:" + std::string(p.name));
      else
        std::printf("not run: target cpu:%s (this processor lacks it)\n", p.name);
    }
#if defined(MUSAIC_HAS_SIMT)
    for (const simt::DeviceRecord* t = simt::targets(); t->name != nullptr; ++t) names.push_back(t->name);
#endif
    for (const auto& [type, name] :
         {std::pair(DeviceType::kCuda, "cuda:0"), std::pair(DeviceType::kMusa, "musa:0"),
          std::pair(DeviceType::kRocm, "hip:0")}) {
      if (device_count(type) > 0)
        names.push_back(name);
      else
        std::printf("not run: target %s (this build or machine lacks it)\n", name);
    }
    if (!has_gpu_form())
      std::erase_if(names, [](const std::string& name) {
        const bool gpu = name.rfind("cpu:", 0) != 0;
        if (gpu) std::printf("not run: target %s (this operator has no form for GPUs yet)\n", name.c_str());
        return gpu;
      });
    const char* chosen = std::getenv("MUSAIC_TEST_TARGETS");
    if (chosen != nullptr) {
      const std::string wanted = std::string(",") + chosen + ",";
      std::erase_if(names, [&](const std::string& name) {
        for (std::size_t n = 1; n <= name.size(); ++n)
          if (wanted.find("," + name.substr(0, n) + ",") != std::string::npos) return false;
        return true;
      });
    }
    return names;
  }();
  return list;
}

void use_target(const std::string& name) {
  const bool on_cpu = name.rfind("cpu:", 0) == 0;
  cpu::force_path(on_cpu ? name.c_str() + 4 : nullptr);
  current_device = on_cpu ? Device{} : find_device(name);
}

Device device() { return current_device; }
bool is_slow() { return current_device.type == DeviceType::kSimt; }

std::vector<DType> float_types() {
  std::vector<DType> types;
  for (const DType t : kFloatTypes)
    if (lacks_dtype(current_device, t).empty()) types.push_back(t);
  return types;
}

void OnTarget::TearDown() {
  if (current_device.type != DeviceType::kCpu) {
    try {
      check(current_device);
    } catch (const Error& e) {
      ADD_FAILURE() << "left behind by the test: " << e.what();
    }
  }
  cpu::force_path(nullptr);
  current_device = {};
}

std::string target_test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string s = info.param;
  for (char& c : s)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return s;
}

void expect_same_bytes_everywhere(const std::function<std::vector<unsigned char>()>& f) {
  std::vector<unsigned char> first;
  std::string first_name;
  const int threads_before = num_threads();
  for (const std::string& target : targets()) {
    use_target(target);
    for (int threads : {1, 2, 3}) {
      if (threads > 1 && current_device.type != DeviceType::kCpu) break;
      set_num_threads(threads);
      std::vector<unsigned char> bytes;
      try {
        bytes = f();
      } catch (const Error& e) {
        // A dtype that the target lacks: there is nothing to compare.
        if (std::string(e.what()).find(": " + target + " has no ") != std::string::npos) break;
        throw;
      }
      const std::string name = target + " with " + std::to_string(threads) + " threads";
      if (first_name.empty()) {
        first = bytes;
        first_name = name;
        continue;
      }
      ASSERT_EQ(bytes.size(), first.size());
      for (std::size_t i = 0; i < bytes.size(); ++i)
        if (bytes[i] != first[i]) {
          ADD_FAILURE() << "byte " << i << " of " << bytes.size() << " differs: " << first_name << " has "
                        << int{first[i]} << ", " << name << " has " << int{bytes[i]};
          break;
        }
    }
  }
  set_num_threads(threads_before);
  cpu::force_path(nullptr);
  current_device = {};
}

void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                  const std::function<double(std::int64_t)>& tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double worst = 1.0;
  std::size_t worst_at = actual.size();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i], e = expected[i];
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    const double t = tolerance(static_cast<std::int64_t>(i));
    const double ratio = std::isfinite(a) && std::isfinite(e) && t > 0
                             ? std::fabs(a - e) / t
                             : std::numeric_limits<double>::infinity();
    if (!(ratio <= worst)) {
      worst = ratio;
      worst_at = i;
    }
  }
  if (worst_at < actual.size())
    ADD_FAILURE() << what << ": element " << worst_at << " of " << actual.size() << " is " << actual[worst_at]
                  << ", expected " << expected[worst_at] << " within "
                  << tolerance(static_cast<std::int64_t>(worst_at)) << " (" << worst
                  << " times the tolerance)";
}

void expect_error(const std::function<void()>& f, const std::vector<std::string>& parts) {
  try {
    f();
  } catch (const Error& e) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos)
          << "the error's text is \"" << e.what() << "\", expected \"" << part << "\" in it";
    return;
  }
  ADD_FAILURE() << "no error, expected one with \"" << (parts.empty() ? "" : parts[0]) << "\"";
}

}  // namespace musaic::testing
