// NVIDIA GPUs as a backend: memory, streams, events and graphs of the CUDA runtime.
#include <cuda_runtime.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "musaic/error.h"

#define MUSAIC_CUDA(call) check_call(call, #call)

namespace musaic {
namespace MUSAIC_TARGET {

extern const OpTable op_table;

namespace {

constexpr const char* kName = MUSAIC_BACKEND_NAME;

void check_call(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  const std::string text = std::string(kName) + ": " + call + ": " + cudaGetErrorString(error);
  (void)cudaGetLastError();  // what can be cleared is not found again by the next call
  throw Error(text);
}

cudaStream_t native(Stream s) { return static_cast<cudaStream_t>(s.handle); }
cudaEvent_t native(Event e) { return static_cast<cudaEvent_t>(e.handle); }

int device_count() {
  static const int count = [] {
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
  }();
  return count;
}

/// The calling thread's device, changed only where it has to be.
void use(int device) {
  int now = -1;
  MUSAIC_CUDA(cudaGetDevice(&now));
  if (now != device) MUSAIC_CUDA(cudaSetDevice(device));
}

DeviceProperties properties(int device) {
  cudaDeviceProp p{};
  MUSAIC_CUDA(cudaGetDeviceProperties(&p, device));
  DeviceProperties d;
  d.name = p.name;
  d.architecture = "sm_" + std::to_string(p.major) + std::to_string(p.minor);
  d.multiprocessors = p.multiProcessorCount;
  d.max_threads_per_block = p.maxThreadsPerBlock;
  d.memory_bytes = static_cast<std::int64_t>(p.totalGlobalMem);
  d.shared_bytes_per_block = static_cast<std::int64_t>(p.sharedMemPerBlockOptin);
  MUSAIC_CUDA(cudaDriverGetVersion(&d.driver_version));
  MUSAIC_CUDA(cudaRuntimeGetVersion(&d.runtime_version));
  return d;
}

void* allocate(int device, std::int64_t bytes) {
  use(device);
  void* p = nullptr;
  MUSAIC_CUDA(cudaMalloc(&p, static_cast<std::size_t>(bytes > 0 ? bytes : 1)));
  return p;
}
void release(int device, void* memory) {
  use(device);
  MUSAIC_CUDA(cudaFree(memory));
}
void* allocate_pinned(int device, std::int64_t bytes) {
  use(device);
  void* p = nullptr;
  MUSAIC_CUDA(cudaHostAlloc(&p, static_cast<std::size_t>(bytes > 0 ? bytes : 1), cudaHostAllocMapped));
  return p;
}
void release_pinned(int device, void* memory) {
  use(device);
  MUSAIC_CUDA(cudaFreeHost(memory));
}

void copy(int device, void* to, const void* from, std::int64_t bytes, cudaMemcpyKind kind, Stream stream,
          bool wait) {
  use(device);
  MUSAIC_CUDA(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, native(stream)));
  if (wait) MUSAIC_CUDA(cudaStreamSynchronize(native(stream)));
}
void copy_to_device(int device, void* to, const void* host, std::int64_t bytes, Stream stream, bool wait) {
  copy(device, to, host, bytes, cudaMemcpyHostToDevice, stream, wait);
}
void copy_to_host(int device, void* host, const void* from, std::int64_t bytes, Stream stream, bool wait) {
  copy(device, host, from, bytes, cudaMemcpyDeviceToHost, stream, wait);
}
void copy_on_device(int device, void* to, const void* from, std::int64_t bytes, Stream stream) {
  copy(device, to, from, bytes, cudaMemcpyDeviceToDevice, stream, false);
}
void fill(int device, void* memory, unsigned char value, std::int64_t bytes, Stream stream) {
  use(device);
  MUSAIC_CUDA(cudaMemsetAsync(memory, value, static_cast<std::size_t>(bytes), native(stream)));
}

Stream create_stream(int device) {
  use(device);
  cudaStream_t s = nullptr;
  MUSAIC_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  return {s};
}
void destroy_stream(int device, Stream stream) {
  use(device);
  MUSAIC_CUDA(cudaStreamDestroy(native(stream)));
}
void synchronize(int device, Stream stream) {
  use(device);
  if (stream.handle != nullptr)
    MUSAIC_CUDA(cudaStreamSynchronize(native(stream)));
  else
    MUSAIC_CUDA(cudaDeviceSynchronize());
}

Event create_event(int device) {
  use(device);
  cudaEvent_t e = nullptr;
  MUSAIC_CUDA(cudaEventCreate(&e));
  return {e};
}
void destroy_event(int device, Event event) {
  use(device);
  MUSAIC_CUDA(cudaEventDestroy(native(event)));
}
void record(int device, Event event, Stream stream) {
  use(device);
  MUSAIC_CUDA(cudaEventRecord(native(event), native(stream)));
}
void wait(int device, Stream stream, Event event) {
  use(device);
  MUSAIC_CUDA(cudaStreamWaitEvent(native(stream), native(event), 0));
}
double elapsed_ms(int device, Event begin, Event end) {
  use(device);
  float ms = 0;
  MUSAIC_CUDA(cudaEventSynchronize(native(end)));
  MUSAIC_CUDA(cudaEventElapsedTime(&ms, native(begin), native(end)));
  return static_cast<double>(ms);
}

void begin_capture(int device, Stream stream) {
  use(device);
  MUSAIC_CUDA(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal));
}
Graph end_capture(int device, Stream stream) {
  use(device);
  cudaGraph_t graph = nullptr;
  MUSAIC_CUDA(cudaStreamEndCapture(native(stream), &graph));
  cudaGraphExec_t runnable = nullptr;
  const cudaError_t error = cudaGraphInstantiateWithFlags(&runnable, graph, 0);
  (void)cudaGraphDestroy(graph);
  check_call(error, "cudaGraphInstantiateWithFlags");
  return {runnable};
}
void replay(int device, Graph graph, Stream stream) {
  use(device);
  MUSAIC_CUDA(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph.handle), native(stream)));
}
void destroy_graph(int device, Graph graph) {
  use(device);
  MUSAIC_CUDA(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph.handle)));
}

/// In pinned memory, which host and device see at one address.
FaultRecord* faults(int device) {
  static std::mutex mutex;
  static std::vector<FaultRecord*> records(static_cast<std::size_t>(device_count()), nullptr);
  const std::lock_guard<std::mutex> lock(mutex);
  FaultRecord*& r = records[static_cast<std::size_t>(device)];
  if (r == nullptr) {
    r = static_cast<FaultRecord*>(allocate_pinned(device, sizeof(FaultRecord)));
    *r = {};
  }
  return r;
}

// 16-bit floats are computed in float32, so every architecture has them; 8-bit ones are stored as bytes.
std::string lacks(int, DType) { return {}; }

const OpTable* table(int) { return &op_table; }

int find(const std::string& rest) {
  if (rest.empty()) return device_count() > 0 ? 0 : -1;
  char* end = nullptr;
  const long n = std::strtol(rest.c_str(), &end, 10);
  return *end == '\0' && n >= 0 && n < device_count() ? static_cast<int>(n) : -1;
}

constexpr Runtime make_runtime() {
  Runtime r{};
  r.device_count = device_count;
  r.properties = properties;
  r.allocate = allocate;
  r.release = release;
  r.allocate_pinned = allocate_pinned;
  r.release_pinned = release_pinned;
  r.copy_to_device = copy_to_device;
  r.copy_to_host = copy_to_host;
  r.copy_on_device = copy_on_device;
  r.fill = fill;
  r.create_stream = create_stream;
  r.destroy_stream = destroy_stream;
  r.synchronize = synchronize;
  r.create_event = create_event;
  r.destroy_event = destroy_event;
  r.record = record;
  r.wait = wait;
  r.elapsed_ms = elapsed_ms;
  r.begin_capture = begin_capture;
  r.end_capture = end_capture;
  r.replay = replay;
  r.destroy_graph = destroy_graph;
  r.faults = faults;
  r.lacks = lacks;
  r.use = use;
  return r;
}
constexpr Runtime kRuntime = make_runtime();

}  // namespace

const BackendEntry& entry() {
  static constexpr BackendEntry e{kName, table, &kRuntime, find};
  return e;
}

}  // namespace MUSAIC_TARGET
}  // namespace musaic
