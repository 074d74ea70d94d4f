#include "cli/check/check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "backends/backend.h"

namespace musaic::checks {
namespace {

// Room on either side of a tensor whose bytes have to stay as they were. Simulated devices check each access instead.
constexpr std::int64_t kGuardBytes = 256;
constexpr unsigned char kPattern = 0x7f;

std::uint64_t mix(std::uint64_t seed, const std::string& name) {
  std::uint64_t h = 0xcbf29ce484222325u ^ seed;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

class DeviceBytes {
 public:
  DeviceBytes(Device device, std::int64_t bytes) : device_(device), memory_(allocate(device, bytes)) {}
  ~DeviceBytes() { release(device_, memory_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  char* data() const { return static_cast<char*>(memory_); }

 private:
  Device device_;
  void* memory_;
};

/// The bytes of each argument after the call on a device.
std::vector<std::vector<unsigned char>> bytes_after(const std::string& op, const Call& call, Device device) {
  const std::int64_t guard = device.type == DeviceType::kSimt ? 0 : kGuardBytes;
  std::vector<std::unique_ptr<DeviceBytes>> memory;
  std::vector<Value> values;
  for (const Call::Argument& a : call.arguments()) {
    memory.push_back(nullptr);
    if (!a.is_tensor) {
      values.push_back(a.scalar);
      continue;
    }
    const auto size = static_cast<std::int64_t>(a.bytes.size());
    memory.back() = std::make_unique<DeviceBytes>(device, size + 2 * guard);
    char* begin = memory.back()->data() + guard;
    if (guard > 0) fill(device, memory.back()->data(), kPattern, size + 2 * guard);
    if (a.is_read && size > 0) copy_to_device(device, begin, a.bytes.data(), size);
    values.emplace_back(
        Tensor(begin, a.dtype, a.shape.data(), nullptr, static_cast<int>(a.shape.size()), device));
  }
  std::optional<DeviceBytes> scratch;
  Workspace workspace;
  if (call.workspace_bytes() > 0) {
    scratch.emplace(device, call.workspace_bytes());
    workspace = {scratch->data(), call.workspace_bytes()};
  }
  find_operator(op).call(values.data(), {}, workspace);
  synchronize(device);
  musaic::check(device);

  std::vector<std::vector<unsigned char>> after;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    after.emplace_back();
    if (memory[i] == nullptr) continue;
    const auto size = static_cast<std::int64_t>(call.arguments()[i].bytes.size());
    std::vector<unsigned char> all(index(size + 2 * guard));
    if (!all.empty()) copy_to_host(device, all.data(), memory[i]->data(), size + 2 * guard);
    for (std::int64_t b = 0; b < guard; ++b)
      if (all[index(b)] != kPattern || all[index(guard + size + b)] != kPattern)
        throw Error("argument " + std::to_string(i) + ": memory outside the tensor was written");
    after.back().assign(all.begin() + guard, all.end() - guard);
    if (!call.arguments()[i].is_written && after.back() != call.arguments()[i].bytes)
      throw Error("argument " + std::to_string(i) + ": an input was written");
  }
  return after;
}

/// The largest error as a share of the tolerance; `text` names the worst element if that is more than 1.
double compare(const Call::Argument& a, const std::vector<unsigned char>& bytes, const Expected& e,
               std::string& text) {
  double worst = 0;
  const auto item = index(size_bytes(a.dtype));
  for (std::size_t i = 0; i < e.values.size(); ++i) {
    const double got = testing::to_double(bytes.data() + i * item, a.dtype), want = e.values[i];
    const double error = std::isnan(got) || std::isnan(want)
                             ? (std::isnan(got) && std::isnan(want) ? 0.0 : HUGE_VAL)
                         : got == want ? 0.0
                                       : std::fabs(got - want);
    const double share = error == 0 ? 0.0 : e.tolerance[i] > 0 ? error / e.tolerance[i] : HUGE_VAL;
    if (share <= worst) continue;
    worst = share;
    if (share <= 1) continue;
    char line[200];
    std::snprintf(line, sizeof line, "argument %d, element %zu: %.9g, expected %.9g within %.3g", e.argument,
                  i, got, want, e.tolerance[i]);
    text = line;
  }
  return worst;
}

}  // namespace

int Call::add(DType dtype, const Shape& shape, bool is_read, bool is_written) {
  Argument a;
  a.dtype = dtype;
  a.shape = shape;
  a.is_tensor = true;
  a.is_read = is_read;
  a.is_written = is_written;
  std::int64_t bytes = size_bytes(dtype);
  for (const std::int64_t s : shape) bytes *= s;
  a.bytes.assign(index(bytes), kPattern);
  arguments_.push_back(std::move(a));
  return static_cast<int>(arguments_.size()) - 1;
}

int Call::output(DType dtype, const Shape& shape) { return add(dtype, shape, false, true); }

int Call::input(DType dtype, const Shape& shape, const std::function<double(std::int64_t)>& value) {
  const int argument = add(dtype, shape, true, false);
  std::vector<unsigned char>& bytes = arguments_.back().bytes;
  const auto item = index(size_bytes(dtype));
  for (std::size_t i = 0; i < bytes.size() / item; ++i)
    testing::from_double(bytes.data() + i * item, dtype, value(static_cast<std::int64_t>(i)));
  return argument;
}

int Call::pattern(DType dtype, const Shape& shape, const std::function<double(std::int64_t)>& value) {
  constexpr std::int64_t kElements = 65536;
  const int argument = add(dtype, shape, true, false);
  std::vector<unsigned char>& bytes = arguments_.back().bytes;
  const auto item = index(size_bytes(dtype)), period = index(kElements) * item;
  for (std::size_t at = 0; at < std::min(bytes.size(), period); at += item)
    testing::from_double(bytes.data() + at, dtype, value(static_cast<std::int64_t>(at / item)));
  for (std::size_t at = period; at < bytes.size(); at += period)
    std::memcpy(bytes.data() + at, bytes.data(), std::min(period, bytes.size() - at));
  return argument;
}

int Call::updated_pattern(DType dtype, const Shape& shape, const std::function<double(std::int64_t)>& value) {
  const int argument = pattern(dtype, shape, value);
  arguments_.back().is_written = true;
  return argument;
}

int Call::normal(DType dtype, const Shape& shape, double scale) {
  return input(dtype, shape, [&](std::int64_t) { return normal() * scale; });
}

int Call::updated(DType dtype, const Shape& shape, double scale) {
  const int argument = normal(dtype, shape, scale);
  arguments_.back().is_written = true;
  return argument;
}

int Call::no_tensor() { return scalar(Value(Tensor())); }

int Call::scalar(Value value) {
  Argument a;
  a.scalar = value;
  arguments_.push_back(std::move(a));
  return static_cast<int>(arguments_.size()) - 1;
}

double Call::normal() { return std::normal_distribution<double>()(generator_); }
double Call::uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(generator_);
}
std::int64_t Call::uniform_int(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(generator_);
}

std::vector<double> Call::values(int argument) const {
  const Argument& a = arguments_[index(argument)];
  const auto item = index(size_bytes(a.dtype));
  std::vector<double> v;
  for (std::size_t i = 0; i < a.bytes.size(); i += item)
    v.push_back(testing::to_double(a.bytes.data() + i, a.dtype));
  return v;
}

std::vector<std::vector<double>> Call::rows(int argument, std::int64_t row_size) const {
  const std::vector<double> v = values(argument);
  std::vector<std::vector<double>> r;
  for (std::size_t i = 0; i < v.size(); i += index(row_size))
    r.emplace_back(v.begin() + static_cast<std::ptrdiff_t>(i),
                   v.begin() + static_cast<std::ptrdiff_t>(i + index(row_size)));
  return r;
}

#define MUSAIC_CHECKED_FOLDER(folder) std::vector<Case> folder##_cases();
#define MUSAIC_UNCHECKED_FOLDER(folder)
#include "check_folders.inc"
#undef MUSAIC_CHECKED_FOLDER

std::vector<Case> all_cases() {
  std::vector<Case> all;
  const auto append = [&](std::vector<Case> more) { all.insert(all.end(), more.begin(), more.end()); };
#define MUSAIC_CHECKED_FOLDER(folder) append(folder##_cases());
#include "check_folders.inc"
#undef MUSAIC_CHECKED_FOLDER
#undef MUSAIC_UNCHECKED_FOLDER
  return all;
}

std::vector<std::string> folders_without_cases() {
  std::vector<std::string> names;
#define MUSAIC_CHECKED_FOLDER(folder)
#define MUSAIC_UNCHECKED_FOLDER(folder) names.push_back(#folder);
#include "check_folders.inc"
  return names;
}

#define MUSAIC_TIMED_FOLDER(folder) std::vector<Timing> folder##_timings();
#include "timing_folders.inc"
#undef MUSAIC_TIMED_FOLDER

std::string to_text(const Shape& shape) {
  std::string s;
  for (const std::int64_t n : shape) s += (s.empty() ? "" : "x") + std::to_string(n);
  return s;
}

std::vector<Timing> all_timings() {
  std::vector<Timing> all;
  std::vector<std::string> timed;
  const auto append = [&](std::vector<Timing> more) { all.insert(all.end(), more.begin(), more.end()); };
#define MUSAIC_TIMED_FOLDER(folder) append(folder##_timings());
#include "timing_folders.inc"
#undef MUSAIC_TIMED_FOLDER
  for (const Timing& t : all) timed.push_back(t.op);
  for (Case& c : all_cases())
    if (std::find(timed.begin(), timed.end(), c.op) == timed.end())
      append({{c.op, c.shape, c.dtype, [make = std::move(c.make)](Call& call) { make(call); }}});
  // In the order of the list, the shapes of an operator and dtype together.
  std::vector<std::string> order;
  for (const OpInfo& op : operators()) order.emplace_back(op.name);
  const auto place = [&](const Timing& t) {
    return std::pair(std::find(order.begin(), order.end(), t.op) - order.begin(), to_string(t.dtype));
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Timing& a, const Timing& b) { return place(a) < place(b); });
  return all;
}

Outcome run(const Case& c, Device device, std::uint64_t seed) {
  Outcome o;
  if (!has_operator(c.op, device)) {
    o.state = Outcome::State::kLacksOperator;
    o.text = "this backend lacks the operator";
    return o;
  }
  if (std::string why = lacks_dtype(device, c.dtype); !why.empty()) {
    o.state = Outcome::State::kLacksDtype;
    o.text = std::move(why);
    return o;
  }
  try {
    Call call(mix(seed, c.name()), device);
    const std::vector<Expected> expected = c.make(call);
    const auto here = bytes_after(c.op, call, device);
    for (const Expected& e : expected) {
      if (e.values.size() != e.tolerance.size() || e.values.size() != call.values(e.argument).size())
        throw Error("the case expects another number of elements than argument " +
                    std::to_string(e.argument) + " has");
      o.worst =
          std::max(o.worst, compare(call.arguments()[index(e.argument)], here[index(e.argument)], e, o.text));
    }
    if (o.worst > 1) o.state = Outcome::State::kFailed;
    if (device.type != DeviceType::kCpu) {
      const auto there = bytes_after(c.op, call, Device{});
      o.bytes_equal = here == there;
      if (!o.bytes_equal && c.tier == Tier::kExact) {
        o.state = Outcome::State::kFailed;
        if (o.text.empty()) o.text = "bytes differ from the CPU's";
      }
    }
  } catch (const std::exception& e) {
    o.state = Outcome::State::kFailed;
    o.text = e.what();
  }
  return o;
}

}  // namespace musaic::checks
