// A backend is a table: what it is called and which function runs each operator.
#pragma once

#include "device/args.h"
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

struct Backend {
  const char* name;
  const OpTable* ops;
  FaultRecord* faults;  // visible to host and device
};

/// Makes a backend serve all devices of a type; for start-up, since calls look it up without a lock.
void add_backend(DeviceType type, const Backend& backend);

/// The backend that serves a device; an Error that names the backends which were built if there is none.
const Backend& backend_for(Device device);

/// Throws what an earlier call on this backend left in its fault record, and clears it.
void raise_recorded_fault(const Backend& backend);

/// Checks the record, then returns the backend: the first line of every operator after its argument checks.
const Backend& enter(Device device);

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
Backend& backend();
}  // namespace cpu

}  // namespace musaic
