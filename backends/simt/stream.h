// Streams, events, copies and graphs of the simulated devices. Work is recorded and runs when the host waits;
// what nothing orders may run in any order, and is reported when it touches the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "musaic/stream.h"

namespace musaic::simt {

/// The device of the calling host thread: where the null stream and allocations without a device go.
void set_device(int device);
int current_device();

/// A null handle is the default stream of the current device; it orders nothing in other streams.
Stream create_stream(int device = 0);
/// Waits for the stream first.
void destroy_stream(Stream stream);
/// Runs all work to its end; the host is then ordered after `stream` (or everything).
void synchronize(Stream stream);
void synchronize();

struct EventRecord;
using Event = std::shared_ptr<EventRecord>;
Event create_event();
/// The event stands for all that the stream holds now.
void record(const Event& event, Stream stream);
/// Later work of the stream comes after the event. An event that was never recorded orders nothing.
void wait(Stream stream, const Event& event);
/// The host waits.
void synchronize(const Event& event);

/// Kernels launched by this process so far that were within the target's limits. Exported, for bindings' tests.
[[gnu::visibility("default")]] std::int64_t launch_count();

/// Copies between host and device, in stream order. The host's bytes are taken when the copy runs, as from
/// pinned memory; copy_from_device and copy_to_device with `wait` return when the copy is done.
void copy_to_device(void* device_memory, const void* host, std::int64_t bytes, Stream stream = {},
                    bool wait = true);
void copy_from_device(void* host, const void* device_memory, std::int64_t bytes, Stream stream = {},
                      bool wait = true);
void copy_on_device(void* to, const void* from, std::int64_t bytes, Stream stream = {});
void fill(void* device_memory, unsigned char value, std::int64_t bytes, Stream stream = {});
/// Runs on the host when the stream gets there.
void call_on_host(Stream stream, std::function<void()> function);

/// Captured work. Arguments are those of the capture; memory is read when it runs.
struct GraphRecord;
using Graph = std::shared_ptr<GraphRecord>;
/// From here on, work of the stream is recorded instead of enqueued; so is work of streams that wait for an
/// event of it.
void begin_capture(Stream stream);
/// Error if a stream that joined was not joined back, or if nothing was begun.
Graph end_capture(Stream stream);
bool is_capturing(Stream stream);
void replay(const Graph& graph, Stream stream);
std::int64_t node_count(const Graph& graph);

}  // namespace musaic::simt
