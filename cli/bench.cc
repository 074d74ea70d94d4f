#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "cli/bandwidth.h"
#include "cli/bench_page.h"
#include "cli/check/check.h"
#include "cli/check/probes.h"
#include "cli/commands.h"
#include "cli/devices.h"
#include "musaic/registry.h"
#include "musaic/version.h"

namespace musaic::cli {
namespace {

using checks::Timing;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct Options {
  std::vector<std::string> devices, ops;
  std::string csv, json, html;
};

class Memory {
 public:
  Memory(Device device, std::int64_t bytes) : device_(device), data_(allocate(device, bytes)) {}
  ~Memory() { release(device_, data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }

 private:
  Device device_;
  void* data_;
};

/// A call with its arguments on a device, to be made again and again.
class Prepared {
 public:
  Prepared(const Timing& t, Device device) : info_(find_operator(t.op)) {
    checks::Call call(1, device);
    t.make(call);
    for (const checks::Call::Argument& a : call.arguments()) {
      if (!a.is_tensor) {
        values_.push_back(a.scalar);
        continue;
      }
      const auto size = static_cast<std::int64_t>(a.bytes.size());
      memory_.push_back(std::make_unique<Memory>(device, size));
      // Outputs too: memory of the operating system's is not there before it is written.
      copy_to_device(device, memory_.back()->data(), a.bytes.data(), size);
      values_.emplace_back(Tensor(memory_.back()->data(), a.dtype, a.shape.data(), nullptr,
                                  static_cast<int>(a.shape.size()), device));
      bytes_ += size * ((a.is_read ? 1 : 0) + (a.is_written ? 1 : 0));
    }
    if (t.bytes > 0) bytes_ = t.bytes;
    if (call.workspace_bytes() > 0) {
      memory_.push_back(std::make_unique<Memory>(device, call.workspace_bytes()));
      workspace_ = {memory_.back()->data(), call.workspace_bytes()};
    }
  }
  void run(Stream stream) const { info_.call(values_.data(), stream, workspace_); }
  std::int64_t bytes() const { return bytes_; }

 private:
  const OpInfo& info_;
  std::vector<Value> values_;
  std::vector<std::unique_ptr<Memory>> memory_;
  Workspace workspace_;
  std::int64_t bytes_ = 0;
};

struct Measured {
  double us = 0;
  int runs = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Takes times with cold caches: before each run a buffer larger than they are is written.
class Timer {
 public:
  explicit Timer(Device device) : device_(device) {
    if (device.type == DeviceType::kCpu) {
      host_flush_.resize(std::size_t{96} << 20);
    } else if (device.type != DeviceType::kSimt) {
      stream_ = create_stream(device);
      flush_.emplace(device, kFlushBytes);
      for (Event& e : events_) e = create_event(device);
    }
  }
  ~Timer() {
    if (!flush_) return;
    for (const Event e : events_) destroy_event(device_, e);
    destroy_stream(device_, stream_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  template <class F>
  Measured measure(const F& work) {
    if (device_.type == DeviceType::kCpu) return on_host(work);
    if (!flush_) return once(work);
    return by_events(work);
  }

 private:
  static constexpr std::int64_t kFlushBytes = std::int64_t{256} << 20;
  static constexpr int kRuns = 20;

  /// Wall clock.
  template <class F>
  Measured on_host(const F& work) {
    work(Stream{});
    std::vector<double> times;
    double spent = 0;
    while (times.size() < 5 || (times.size() < kRuns && spent < 0.5)) {
      std::memset(host_flush_.data(), static_cast<int>(times.size() + 1), host_flush_.size());
      const auto start = Clock::now();
      work(Stream{});
      const double s = seconds_since(start);
      times.push_back(1e6 * s);
      spent += s;
    }
    return {median(times), static_cast<int>(times.size())};
  }

  /// Events around each run. The host is ahead, since writing the buffer takes longer than a launch.
  template <class F>
  Measured by_events(const F& work) {
    work(stream_);
    synchronize(device_, stream_);
    for (int i = 0; i < kRuns; ++i) {
      fill(device_, flush_->data(), static_cast<unsigned char>(i), kFlushBytes, stream_);
      record(device_, events_[2 * i], stream_);
      work(stream_);
      record(device_, events_[2 * i + 1], stream_);
    }
    synchronize(device_, stream_);
    std::vector<double> times;
    for (int i = 0; i < kRuns; ++i)
      times.push_back(1e3 * elapsed_ms(device_, events_[2 * i], events_[2 * i + 1]));
    return {median(times), kRuns};
  }

  /// The simulator's own time.
  template <class F>
  Measured once(const F& work) {
    const auto start = Clock::now();
    work(Stream{});
    synchronize(device_);
    return {1e6 * seconds_since(start), 1};
  }

  Device device_;
  Stream stream_;
  std::optional<Memory> flush_;
  std::vector<char> host_flush_;
  Event events_[2 * kRuns];
};

/// Bytes read and written in a second by a copy.
double copy_rate(Device device, Timer& timer) {
  constexpr std::int64_t kBytes = std::int64_t{256} << 20;
  if (device.type == DeviceType::kCpu) return copy_bandwidth(num_threads());
  const Memory from(device, kBytes), to(device, kBytes);
  fill(device, from.data(), 1, kBytes);
  synchronize(device);
  const Measured m =
      timer.measure([&](Stream s) { copy_on_device(device, to.data(), from.data(), kBytes, s); });
  return 2.0 * static_cast<double>(kBytes) / (m.us * 1e-6);
}

Json bench_device(const std::string& name, const std::vector<Timing>& timings) {
  const Device device = find_device(name);
  const DeviceProperties p = device_properties(device);
  const bool simulated = device.type == DeviceType::kSimt;
  Timer timer(device);
  Json d = {{"device", name}, {"name", p.name}, {"architecture", p.architecture}, {"simulated", simulated}};
  std::printf("%s: %s, %s\n", name.c_str(), p.name.c_str(), p.architecture.c_str());
  double copy = 0, empty = 0;
  if (simulated) {
    d["note"] =
        "These are times of the simulator on this CPU, with all of its checks: they say nothing about any "
        "GPU. "
        "One run of the smallest shape.";
    std::printf("  %s\n", d["note"].get<std::string>().c_str());
  } else {
    copy = copy_rate(device, timer);
    empty = timer.measure([&](Stream s) { checks::launch_nothing(device, s); }).us;
    d["copy_gb_per_s"] = copy * 1e-9;
    d["empty_launch_us"] = empty;
    d["note"] = device.type == DeviceType::kCpu ? "Medians of wall-clock times with cold caches, " +
                                                      std::to_string(num_threads()) + " threads."
                                                : "Medians of times between events with cold caches.";
    std::printf("  a copy moves %.1f GB/s (read and written), an empty launch takes %.2f us; %s\n",
                copy * 1e-9, empty, d["note"].get<std::string>().c_str());
  }
  std::printf("  %-28s %-9s %-28s %12s %10s  %s\n", "operator", "dtype", "shape", "us", "GB/s",
              simulated ? "" : "share of a copy, or empty launches");
  d["results"] = Json::array();
  d["left_out"] = Json::array();
  std::string last;
  for (const Timing& t : timings) {
    const std::string why =
        !has_operator(t.op, device) ? "this backend lacks the operator" : lacks_dtype(device, t.dtype);
    const std::string key = t.op + " " + to_string(t.dtype);
    const bool first = key != last;
    last = key;
    if (!why.empty()) {
      if (first) d["left_out"].push_back({{"operator", t.op}, {"dtype", to_string(t.dtype)}, {"why", why}});
      continue;
    }
    if (simulated && !first) continue;
    const Prepared call(t, device);
    const Measured m = timer.measure([&](Stream s) { call.run(s); });
    const double rate = static_cast<double>(call.bytes()) / (m.us * 1e-6);
    const double share = copy > 0 ? rate / copy : 0, launches = empty > 0 ? m.us / empty : 0;
    d["results"].push_back({{"operator", t.op},
                            {"dtype", to_string(t.dtype)},
                            {"shape", t.shape},
                            {"us", m.us},
                            {"gb_per_s", rate * 1e-9},
                            {"share_of_copy", share},
                            {"empty_launches", launches},
                            {"bytes", call.bytes()},
                            {"runs", m.runs}});
    char part[40] = "";
    if (!simulated && launches < 5)
      std::snprintf(part, sizeof part, "%.1f empty launches", launches);
    else if (!simulated)
      std::snprintf(part, sizeof part, "%.0f %%", 100 * share);
    std::printf("  %-28s %-9s %-28s %12.2f %10.2f  %s\n", t.op.c_str(), to_string(t.dtype).c_str(),
                t.shape.c_str(), m.us, rate * 1e-9, part);
    std::fflush(stdout);
  }
  for (const Json& l : d["left_out"])
    std::printf("  %-28s %-9s not run: %s\n", l.at("operator").get<std::string>().c_str(),
                l.at("dtype").get<std::string>().c_str(), l.at("why").get<std::string>().c_str());
  return d;
}

std::string to_csv(const Json& report) {
  std::string text =
      "device,simulated,operator,dtype,shape,us,gb_per_s,share_of_copy,empty_launches,bytes,runs\n";
  for (const Json& d : report.at("devices"))
    for (const Json& r : d.at("results")) {
      text += d.at("device").get<std::string>() + (d.at("simulated").get<bool>() ? ",yes" : ",no");
      for (const char* key : {"operator", "dtype", "shape", "us", "gb_per_s", "share_of_copy",
                              "empty_launches", "bytes", "runs"})
        text += "," + (r.at(key).is_string() ? r.at(key).get<std::string>() : r.at(key).dump());
      text += "\n";
    }
  return text;
}

void write(const std::string& option, const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw Error("bench", option, path, "a file that can be written");
}

void bench(const Options& o) {
  for (const std::string& op : o.ops) find_operator(op);
  std::vector<Timing> timings;
  for (Timing& t : checks::all_timings())
    if (o.ops.empty() || std::find(o.ops.begin(), o.ops.end(), t.op) != o.ops.end())
      timings.push_back(std::move(t));
  if (timings.empty())
    throw Error("bench: no call of " + o.ops.front() + " is known: it has no timing.cc and no check.cc");
  Json report = {{"musaic", MUSAIC_VERSION}, {"devices", Json::array()}};
  const std::vector<std::string> devices = o.devices.empty() ? std::vector<std::string>{"cpu"} : o.devices;
  for (const std::string& name : devices) report["devices"].push_back(bench_device(name, timings));
  write("--csv", o.csv, to_csv(report));
  write("--json", o.json, report.dump(1) + "\n");
  write("--html", o.html, bench_page(report));
  std::vector<std::string> timed;
  for (const Timing& t : timings) timed.push_back(t.op);
  std::string untimed;
  for (const OpInfo& op : operators())
    if (o.ops.empty() && std::find(timed.begin(), timed.end(), op.name) == timed.end())
      untimed += std::string(" ") + op.name;
  if (!untimed.empty()) std::printf("without a call to time:%s\n", untimed.c_str());
}

}  // namespace

void add_bench(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "Times every operator on a device");
  command
      ->add_option("--device", o->devices,
                   "A device by the name that musaic info prints (default: cpu); may be given again")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--op", o->ops, "This operator alone; may be given again")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--csv", o->csv, "Writes the figures to this file");
  command->add_option("--json", o->json, "The same as JSON");
  command->add_option("--html", o->html, "The same as one page with plots");
  command->callback([o] { bench(*o); });
}

}  // namespace musaic::cli
