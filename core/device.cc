#include "musaic/device.h"

#include "backends/backend.h"

namespace musaic {
namespace {

const Runtime& runtime(Device device) { return *backend_for(device).runtime; }

}  // namespace

DeviceProperties device_properties(Device device) { return runtime(device).properties(device.index); }

void* allocate(Device device, std::int64_t bytes) { return runtime(device).allocate(device.index, bytes); }
void release(Device device, void* memory) {
  if (memory != nullptr) runtime(device).release(device.index, memory);
}
void* allocate_pinned(Device device, std::int64_t bytes) {
  return runtime(device).allocate_pinned(device.index, bytes);
}
void release_pinned(Device device, void* memory) {
  if (memory != nullptr) runtime(device).release_pinned(device.index, memory);
}

void copy_to_device(Device device, void* to, const void* host, std::int64_t bytes, Stream stream, bool wait) {
  if (bytes > 0) runtime(device).copy_to_device(device.index, to, host, bytes, stream, wait);
}
void copy_to_host(Device device, void* host, const void* from, std::int64_t bytes, Stream stream, bool wait) {
  if (bytes > 0) runtime(device).copy_to_host(device.index, host, from, bytes, stream, wait);
}
void copy_on_device(Device device, void* to, const void* from, std::int64_t bytes, Stream stream) {
  if (bytes > 0) runtime(device).copy_on_device(device.index, to, from, bytes, stream);
}
void fill(Device device, void* memory, unsigned char value, std::int64_t bytes, Stream stream) {
  if (bytes > 0) runtime(device).fill(device.index, memory, value, bytes, stream);
}

Stream create_stream(Device device) { return runtime(device).create_stream(device.index); }
void destroy_stream(Device device, Stream stream) { runtime(device).destroy_stream(device.index, stream); }
void synchronize(Device device, Stream stream) { runtime(device).synchronize(device.index, stream); }

Event create_event(Device device) { return runtime(device).create_event(device.index); }
void destroy_event(Device device, Event event) { runtime(device).destroy_event(device.index, event); }
void record(Device device, Event event, Stream stream) {
  runtime(device).record(device.index, event, stream);
}
void wait(Device device, Stream stream, Event event) { runtime(device).wait(device.index, stream, event); }
double elapsed_ms(Device device, Event begin, Event end) {
  return runtime(device).elapsed_ms(device.index, begin, end);
}

void begin_capture(Device device, Stream stream) { runtime(device).begin_capture(device.index, stream); }
Graph end_capture(Device device, Stream stream) { return runtime(device).end_capture(device.index, stream); }
void replay(Device device, Graph graph, Stream stream) {
  runtime(device).replay(device.index, graph, stream);
}
void destroy_graph(Device device, Graph graph) { runtime(device).destroy_graph(device.index, graph); }

}  // namespace musaic
