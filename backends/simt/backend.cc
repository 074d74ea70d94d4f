// The simulated devices as a backend: "simt:NAME" makes a target current; memory, streams and graphs are the
// executor's, and every wait raises what the checks found.
#include "backends/backend.h"

#include <cstring>
#include <mutex>
#include <new>
#include <string>

#include "backends/simt/device.h"
#include "backends/simt/memory.h"
#include "backends/simt/report.h"
#include "backends/simt/stream.h"
#include "musaic/error.h"

namespace musaic {

namespace simt_ops {
extern const OpTable op_table;
}

namespace simt {
namespace {

const OpTable* table(int) { return &simt_ops::op_table; }

int find(const std::string& rest) {
  if (rest.size() == 1 && rest[0] >= '0' && rest[0] < '0' + kDevices) return rest[0] - '0';
  if (!rest.empty()) use_target(("simt:" + rest).c_str());
  return 0;
}

DeviceProperties device_properties(int) {
  const DeviceRecord& t = current_target();
  DeviceProperties p;
  p.name = t.name;
  p.architecture = t.name + std::strlen("simt:");
  p.multiprocessors = t.multiprocessors;
  p.max_threads_per_block = t.max_threads_per_block;
  p.shared_bytes_per_block = t.max_shared_bytes;
  return p;
}

void wait_and_raise(int, Stream stream) {
  if (stream.handle != nullptr)
    synchronize(stream);
  else
    synchronize();
  raise_reports();
}

FaultRecord* faults(int device) {
  static FaultRecord* records[kDevices] = {};
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  FaultRecord*& r = records[device];
  if (r == nullptr) {
    r = static_cast<FaultRecord*>(allocate(sizeof(FaultRecord), device));
    *r = {};
    mark_written(r, sizeof(FaultRecord));
  }
  return r;
}

std::string lacks(int, DType dtype) {
  const DeviceRecord& t = current_target();
  const bool fp8 = dtype.code >= kFloat8E4M3FN.code;
  const Feature needed = dtype == kBFloat16 ? Feature::kBFloat16 : fp8 ? Feature::kFp8 : Feature::kNone;
  return has_feature(t, needed) ? "" : std::string(t.name) + " has no " + to_string(dtype);
}

constexpr Runtime kRuntime{
    .device_count = [] { return kDevices; },
    .properties = device_properties,
    .allocate = [](int device, std::int64_t bytes) { return simt::allocate(bytes > 0 ? bytes : 0, device); },
    .release = [](int, void* memory) { simt::release(memory); },
    .allocate_pinned = [](int,
                          std::int64_t bytes) { return ::operator new(static_cast<std::size_t>(bytes)); },
    .release_pinned = [](int, void* memory) { ::operator delete(memory); },
    .copy_to_device = [](int, void* to, const void* from, std::int64_t n, Stream s,
                         bool wait) { simt::copy_to_device(to, from, n, s, wait); },
    .copy_to_host =
        [](int, void* to, const void* from, std::int64_t n, Stream s, bool wait) {
          simt::copy_from_device(to, from, n, s, wait);
          if (wait) raise_reports();
        },
    .copy_on_device = [](int, void* to, const void* from, std::int64_t n,
                         Stream s) { simt::copy_on_device(to, from, n, s); },
    .fill = [](int, void* to, unsigned char value, std::int64_t n, Stream s) { simt::fill(to, value, n, s); },
    .create_stream = [](int device) { return simt::create_stream(device); },
    .destroy_stream = [](int, Stream s) { simt::destroy_stream(s); },
    .synchronize = wait_and_raise,
    .create_event = [](int) { return musaic::Event{new Event(simt::create_event())}; },
    .destroy_event = [](int, musaic::Event e) { delete static_cast<Event*>(e.handle); },
    .record = [](int, musaic::Event e, Stream s) { simt::record(*static_cast<Event*>(e.handle), s); },
    .wait = [](int, Stream s, musaic::Event e) { simt::wait(s, *static_cast<Event*>(e.handle)); },
    // Simulated time means nothing.
    .elapsed_ms = [](int, musaic::Event, musaic::Event e) -> double {
      simt::synchronize(*static_cast<Event*>(e.handle));
      return 0.0;
    },
    .begin_capture = [](int, Stream s) { simt::begin_capture(s); },
    .end_capture = [](int, Stream s) { return musaic::Graph{new Graph(simt::end_capture(s))}; },
    .replay = [](int, musaic::Graph g, Stream s) { simt::replay(*static_cast<Graph*>(g.handle), s); },
    .destroy_graph = [](int, musaic::Graph g) { delete static_cast<Graph*>(g.handle); },
    .faults = faults,
    .lacks = lacks,
    .use = [](int device) { simt::set_device(device); },
};

}  // namespace

const BackendEntry& entry() {
  static constexpr BackendEntry e{"simt", table, &kRuntime, find};
  return e;
}

}  // namespace simt
}  // namespace musaic
