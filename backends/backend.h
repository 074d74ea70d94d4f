// A backend is a table: what it is called and which function runs each operator.
#pragma once

#include <string>

#include "device/args.h"
#include "musaic/device.h"
#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

#define MUSAIC_OP(name, Args, folder, schema) struct Args;
#include "ops/list.inc"
#undef MUSAIC_OP

/// Launchers, one an operator. Arguments are checked before; null: this backend lacks the operator.
struct OpTable {
#define MUSAIC_OP(name, Args, folder, schema) void (*name)(const Args&, Stream);
#include "ops/list.inc"
#undef MUSAIC_OP
};

/// What include/musaic/device.h offers, for the devices of one backend; that file says what each does. Device numbers
/// are checked before.
struct Runtime {
  int (*device_count)();
  DeviceProperties (*properties)(int device);
  void* (*allocate)(int device, std::int64_t bytes);
  void (*release)(int device, void* memory);
  void* (*allocate_pinned)(int device, std::int64_t bytes);
  void (*release_pinned)(int device, void* memory);
  void (*copy_to_device)(int device, void* to, const void* host, std::int64_t bytes, Stream stream,
                         bool wait);
  void (*copy_to_host)(int device, void* host, const void* from, std::int64_t bytes, Stream stream,
                       bool wait);
  void (*copy_on_device)(int device, void* to, const void* from, std::int64_t bytes, Stream stream);
  void (*fill)(int device, void* memory, unsigned char value, std::int64_t bytes, Stream stream);
  Stream (*create_stream)(int device);
  void (*destroy_stream)(int device, Stream stream);
  void (*synchronize)(int device, Stream stream);
  Event (*create_event)(int device);
  void (*destroy_event)(int device, Event event);
  void (*record)(int device, Event event, Stream stream);
  void (*wait)(int device, Stream stream, Event event);
  double (*elapsed_ms)(int device, Event begin, Event end);
  void (*begin_capture)(int device, Stream stream);
  Graph (*end_capture)(int device, Stream stream);
  void (*replay)(int device, Graph graph, Stream stream);
  void (*destroy_graph)(int device, Graph graph);
  /// The record of a device's faults, visible to host and device.
  FaultRecord* (*faults)(int device);
  /// Why this device has no such dtype ("simt:musa-mp21 has no bfloat16"); empty if it has.
  std::string (*lacks)(int device, DType dtype);
  /// Makes the device the calling thread's, for launches.
  void (*use)(int device);
};

struct Backend {
  const char* name;
  const OpTable* ops;
  const Runtime* runtime;
  FaultRecord* faults;  // of the device that the backend was looked up for
};

/// What a backend gives as NAMESPACE::entry(); its backend.cmake names it with musaic_add_backend.
struct BackendEntry {
  const char* name;
  const OpTable* (*ops)(int device);
  const Runtime* runtime;
  /// A device by what follows "NAME:" ("0", "musa-mp31"; empty: the first); -1 if there is none.
  int (*find)(const std::string& rest);
};

/// The backend that serves a device; an Error that names the backends which were built if there is none.
Backend backend_for(Device device);

/// Throws what an earlier call on this backend left in its fault record, and clears it.
void raise_recorded_fault(const Backend& backend);

/// Checks the record, then returns the backend, with its device current: the first line of every operator after its
/// argument checks.
Backend enter(Device device);

/// The launcher of an operator; an Error that names it if the backend lacks it.
template <class Args>
void launch(const Backend& backend, void (*OpTable::*op)(const Args&, Stream), const char* name,
            const Args& args, Stream stream) {
  if (backend.ops->*op == nullptr)
    throw Error(name, "device", backend.name, "a backend that has this operator");
  (backend.ops->*op)(args, stream);
}

/// What is wrong with a dtype on a device; empty if nothing.
std::string lacks_dtype(Device device, DType dtype);

/// The rows of `t` (all dimensions but the last). Throws unless the leading dimensions collapse to at most
/// two.
RowView rows_of(const char* op, const char* argument, const Tensor& t);

namespace cpu {
struct Path {
  const char* name;     // as in MUSAIC_CPU
  bool (*supported)();  // by this processor
  const OpTable* ops;
};
/// Fastest first; the last one runs everywhere.
struct PathList {
  const Path* begin_;
  const Path* end_;
  const Path* begin() const { return begin_; }
  const Path* end() const { return end_; }
};
PathList paths();
/// For tests and benchmarks: forces a supported path by name, or the automatic choice with nullptr.
void force_path(const char* name);
const BackendEntry& entry();
}  // namespace cpu

}  // namespace musaic
