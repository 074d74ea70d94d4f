#include "backends/simt/stream.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backends/simt/access.h"
#include "backends/simt/device.h"
#include "backends/simt/find.h"
#include "backends/simt/memory.h"
#include "backends/simt/order.h"
#include "backends/simt/scheduler.h"
#include "backends/simt/submit.h"
#include "musaic/error.h"

namespace musaic::simt {

using Works = std::vector<std::shared_ptr<Work>>;

struct GraphRecord {
  struct Node {
    std::function<std::shared_ptr<Work>()> make;
    std::vector<std::size_t> before;
  };
  std::vector<Node> nodes;
  void* origin = nullptr;     // the stream that began the capture
  std::vector<void*> joined;  // others
};

struct EventRecord {
  bool recorded = false;
  Works works;
  Graph capture;
  std::vector<std::size_t> nodes;
};

namespace {

struct StreamRecord {
  int device;
  Works tails;  // what the next work comes after
  Graph capture;
  std::vector<std::size_t> node_tails;  // the same while captured
};

struct Streams {
  std::mutex mutex;
  std::set<StreamRecord*> all;
  StreamRecord defaults[kDevices] = {{0, {}, {}, {}}, {1, {}, {}, {}}, {2, {}, {}, {}}, {3, {}, {}, {}}};
  Works known_to_host;  // done, and the host waited for it
  std::uint64_t next_id = 64;
  std::uint64_t window = 64;  // work with smaller ids precedes everything new
};
Streams& streams() {
  static Streams& s = *new Streams;
  return s;
}

thread_local int this_device = 0;

StreamRecord& record_of(Stream stream) {
  Streams& s = streams();
  if (stream.handle == nullptr) return s.defaults[this_device];
  auto* r = static_cast<StreamRecord*>(stream.handle);
  const std::lock_guard<std::mutex> lock(s.mutex);
  if (s.all.count(r) == 0)
    throw Error("simt", "stream", "an unknown handle", "one of create_stream(), or null");
  return *r;
}

void order_after(Work& work, const Work& earlier) {
  const auto set_bit = [&](std::uint64_t id) {
    const std::uint64_t bit = id - work.first_concurrent;
    if (work.ancestors.size() <= bit / 64) work.ancestors.resize(bit / 64 + 1);
    work.ancestors[bit / 64] |= std::uint64_t{1} << (bit % 64);
  };
  if (earlier.info->id < work.first_concurrent) return;
  set_bit(earlier.info->id);
  // Windows begin at multiples of 64.
  const std::uint64_t skipped = (work.first_concurrent - earlier.first_concurrent) / 64;
  for (std::uint64_t i = skipped; i < earlier.ancestors.size(); ++i) {
    if (work.ancestors.size() <= i - skipped) work.ancestors.resize(i - skipped + 1);
    work.ancestors[i - skipped] |= earlier.ancestors[i];
  }
}

/// Gives work its number and its predecessors, and submits it.
void start(std::shared_ptr<Work> work, const Works& before) {
  Streams& s = streams();
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    work->info->id = s.next_id++;
    work->first_concurrent = s.window;
    for (const auto& b : before) order_after(*work, *b);
    for (const auto& b : s.known_to_host) order_after(*work, *b);
  }
  for (const auto& b : before) work->before.push_back(b);
  keep_info(work->info);
  submit(std::move(work));
}

std::shared_ptr<Work> host_work(const char* name, int device, std::function<void(Work&)> action) {
  auto work = std::make_shared<Work>();
  work->info->kernel = name;
  work->info->device = device;
  work->action = std::move(action);
  return work;
}

void submit_action(const char* name, Stream stream, std::function<void(Work&)> action) {
  const int device = record_of(stream).device;
  submit_to(stream, [name, device, action = std::move(action)] { return host_work(name, device, action); });
}

void check_host_may_wait() {
  if (is_running_work()) throw Error("simt: a kernel or a host function of a stream waits for work");
}

void host_learns(const Works& works) {
  Streams& s = streams();
  const std::lock_guard<std::mutex> lock(s.mutex);
  for (const auto& w : works)
    if (std::find(s.known_to_host.begin(), s.known_to_host.end(), w) == s.known_to_host.end())
      s.known_to_host.push_back(w);
}

}  // namespace

int device_of_stream(Stream stream) { return record_of(stream).device; }

void submit_to(Stream stream, std::function<std::shared_ptr<Work>()> make) {
  StreamRecord& r = record_of(stream);
  if (r.capture != nullptr) {
    r.capture->nodes.push_back({std::move(make), r.node_tails});
    r.node_tails = {r.capture->nodes.size() - 1};
    return;
  }
  auto work = make();
  start(work, r.tails);
  r.tails = {std::move(work)};
}

void set_device(int device) {
  if (device < 0 || device >= kDevices)
    throw Error("simt::set_device", "device", std::to_string(device), "0 to " + std::to_string(kDevices - 1));
  this_device = device;
}
int current_device() { return this_device; }

Stream create_stream(int device) {
  if (device < 0 || device >= kDevices)
    throw Error("simt::create_stream", "device", std::to_string(device),
                "0 to " + std::to_string(kDevices - 1));
  auto* r = new StreamRecord{device, {}, {}, {}};
  Streams& s = streams();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.all.insert(r);
  return {r};
}

void destroy_stream(Stream stream) {
  if (stream.handle == nullptr) return;
  StreamRecord& r = record_of(stream);
  run_everything();
  Streams& s = streams();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.all.erase(&r);
  delete &r;
}

void synchronize(Stream stream) {
  StreamRecord& r = record_of(stream);
  if (r.capture != nullptr)
    throw Error("simt::synchronize", "stream", "one that is captured", "one that runs");
  check_host_may_wait();
  run_everything();
  host_learns(r.tails);
}

void synchronize() {
  if (is_running_work()) throw Error("simt: a kernel or a host function of a stream waits for work");
  run_everything();
  Streams& s = streams();
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.next_id = s.window = (s.next_id + 63) / 64 * 64;
    s.known_to_host.clear();
  }
  forget_flags();
  recycle_slots();
}

Event create_event() { return std::make_shared<EventRecord>(); }

void record(const Event& event, Stream stream) {
  StreamRecord& r = record_of(stream);
  *event = {true, r.capture == nullptr ? r.tails : Works{}, r.capture, r.node_tails};
}

void wait(Stream stream, const Event& event) {
  StreamRecord& r = record_of(stream);
  if (!event->recorded) return;
  if (event->capture != nullptr) {
    if (r.capture == nullptr) {
      r.capture = event->capture;
      r.node_tails.clear();
      r.capture->joined.push_back(&r);
    } else if (r.capture != event->capture) {
      throw Error("simt::wait", "event", "of another capture", "one of the stream's own capture");
    }
    for (const std::size_t n : event->nodes)
      if (std::find(r.node_tails.begin(), r.node_tails.end(), n) == r.node_tails.end())
        r.node_tails.push_back(n);
    return;
  }
  if (r.capture != nullptr)
    throw Error("simt::wait", "event", "recorded outside the capture", "one that was recorded inside");
  for (const auto& w : event->works)
    if (std::find(r.tails.begin(), r.tails.end(), w) == r.tails.end()) r.tails.push_back(w);
}

void synchronize(const Event& event) {
  if (event->capture != nullptr)
    throw Error("simt::synchronize", "event", "one that was captured", "one that runs");
  check_host_may_wait();
  run_everything();
  host_learns(event->works);
}

void copy_to_device(void* to, const void* host, std::int64_t bytes, Stream stream, bool wait_for_it) {
  submit_action("copy_to_device", stream, [=](Work& work) {
    const auto n = static_cast<std::size_t>(bytes);
    if (check_copy(work, take_slot(*work.info, 0), to, n, true, false)) std::memcpy(to, host, n);
  });
  if (wait_for_it && !is_capturing(stream)) synchronize(stream);
}

void copy_from_device(void* host, const void* from, std::int64_t bytes, Stream stream, bool wait_for_it) {
  submit_action("copy_from_device", stream, [=](Work& work) {
    const auto n = static_cast<std::size_t>(bytes);
    if (check_copy(work, take_slot(*work.info, 0), from, n, false, true)) std::memcpy(host, from, n);
  });
  if (wait_for_it && !is_capturing(stream)) synchronize(stream);
}

void copy_on_device(void* to, const void* from, std::int64_t bytes, Stream stream) {
  submit_action("copy_on_device", stream, [=](Work& work) {
    const auto n = static_cast<std::size_t>(bytes);
    const std::uint32_t slot = take_slot(*work.info, 0);
    if (check_copy(work, slot, from, n, false, false) && check_copy(work, slot, to, n, true, false))
      std::memmove(to, from, n);
  });
}

void fill(void* to, unsigned char value, std::int64_t bytes, Stream stream) {
  submit_action("fill", stream, [=](Work& work) {
    const auto n = static_cast<std::size_t>(bytes);
    if (check_copy(work, take_slot(*work.info, 0), to, n, true, false)) std::memset(to, value, n);
  });
}

void call_on_host(Stream stream, std::function<void()> function) {
  submit_action("call_on_host", stream, [f = std::move(function)](Work&) { f(); });
}

void begin_capture(Stream stream) {
  StreamRecord& r = record_of(stream);
  if (stream.handle == nullptr)
    throw Error("simt::begin_capture", "stream", "the default stream", "one of create_stream()");
  if (r.capture != nullptr)
    throw Error("simt::begin_capture", "stream", "one that is captured", "one that runs");
  r.capture = std::make_shared<GraphRecord>();
  r.capture->origin = &r;
  r.node_tails.clear();
}

Graph end_capture(Stream stream) {
  StreamRecord& r = record_of(stream);
  if (r.capture == nullptr || r.capture->origin != &r)
    throw Error("simt::end_capture", "stream", "one whose capture did not begin here",
                "that of begin_capture()");
  Graph graph = r.capture;
  // All that was captured has to lead to the end of this stream.
  std::vector<bool> reached(graph->nodes.size(), false);
  std::vector<std::size_t> open = r.node_tails;
  while (!open.empty()) {
    const std::size_t n = open.back();
    open.pop_back();
    if (reached[n]) continue;
    reached[n] = true;
    for (const std::size_t b : graph->nodes[n].before) open.push_back(b);
  }
  const std::vector<void*> joined = std::exchange(graph->joined, {});
  r.capture = nullptr;
  r.node_tails.clear();
  for (void* j : joined) {
    static_cast<StreamRecord*>(j)->capture = nullptr;
    static_cast<StreamRecord*>(j)->node_tails.clear();
  }
  if (std::find(reached.begin(), reached.end(), false) != reached.end())
    throw Error("simt::end_capture", "stream", "work of another stream that was not joined back",
                "that this stream waits for an event after it");
  return graph;
}

bool is_capturing(Stream stream) { return record_of(stream).capture != nullptr; }

void replay(const Graph& graph, Stream stream) {
  StreamRecord& r = record_of(stream);
  if (r.capture != nullptr) throw Error("simt::replay", "stream", "one that is captured", "one that runs");
  Works works;
  std::vector<bool> has_later(graph->nodes.size(), false);
  for (const GraphRecord::Node& node : graph->nodes) {
    Works before;
    for (const std::size_t b : node.before) {
      before.push_back(works[b]);
      has_later[b] = true;
    }
    works.push_back(node.make());
    start(works.back(), before.empty() ? r.tails : before);
  }
  if (works.empty()) return;
  r.tails.clear();
  for (std::size_t i = 0; i < works.size(); ++i)
    if (!has_later[i]) r.tails.push_back(works[i]);
}

std::int64_t node_count(const Graph& graph) { return static_cast<std::int64_t>(graph->nodes.size()); }

}  // namespace musaic::simt
