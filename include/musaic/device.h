// Devices: what there is, their memory, streams, events and graphs, the same for every backend.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// What a device is; a field that its backend does not know is 0 or empty.
struct DeviceProperties {
  std::string name;          // the vendor's; of the CPU, the processor's
  std::string architecture;  // what code is compiled for
  int multiprocessors = 0;
  int max_threads_per_block = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t shared_bytes_per_block = 0;      // static and dynamic together, at most
  int driver_version = 0, runtime_version = 0;  // the vendor's numbers
};

/// Types with a backend in this build, the CPU first.
std::vector<DeviceType> device_types();
/// Devices of a type; 0 if this build has no backend for it or the machine no device.
int device_count(DeviceType type);
/// Error that names the device and what there is, if it is not there.
DeviceProperties device_properties(Device device);

/// A backend's name, after a colon the number of a device if not the first; or a simulated target (docs/simt.md),
/// which becomes current for all simulated devices. Error that lists what this build has for any other name.
Device find_device(const std::string& name);

/// Memory of a device, 256-byte aligned (64 on the CPU), contents unwritten. Error when there is none left.
/// bytes <= 0: memory that nothing may touch.
void* allocate(Device device, std::int64_t bytes);
void release(Device device, void* memory);
/// Memory of the host that devices of this type copy to and from without waiting.
void* allocate_pinned(Device device, std::int64_t bytes);
void release_pinned(Device device, void* memory);

/// Copies in stream order. With `wait` the copy is done on return; without it, `host` has to be pinned memory and
/// stay as it is until the stream gets there.
void copy_to_device(Device device, void* to, const void* host, std::int64_t bytes, Stream stream = {},
                    bool wait = true);
void copy_to_host(Device device, void* host, const void* from, std::int64_t bytes, Stream stream = {},
                  bool wait = true);
void copy_on_device(Device device, void* to, const void* from, std::int64_t bytes, Stream stream = {});
void fill(Device device, void* memory, unsigned char value, std::int64_t bytes, Stream stream = {});

/// A stream that does not wait for the default stream (null: the CPU has none).
Stream create_stream(Device device);
void destroy_stream(Device device, Stream stream);
/// Waits for a stream; throws what its work met.
void synchronize(Device device, Stream stream = {});

/// A point in a stream. Handles are opaque; null on the CPU.
struct Event {
  void* handle = nullptr;
};
Event create_event(Device device);
void destroy_event(Device device, Event event);
void record(Device device, Event event, Stream stream);
/// Later work of `stream` comes after the event.
void wait(Device device, Stream stream, Event event);
/// Milliseconds between two events that were recorded, after waiting for the second.
double elapsed_ms(Device device, Event begin, Event end);

/// Work of a stream that was captured, to be run again with the same arguments. Error on the CPU and on devices
/// whose backend cannot capture.
struct Graph {
  void* handle = nullptr;
};
void begin_capture(Device device, Stream stream);
Graph end_capture(Device device, Stream stream);
void replay(Device device, Graph graph, Stream stream);
void destroy_graph(Device device, Graph graph);

}  // namespace musaic
