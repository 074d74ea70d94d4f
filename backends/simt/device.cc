#include "backends/simt/device.h"

#include <cstring>
#include <string>

#include "backends/simt/stream.h"
#include "musaic/error.h"

namespace musaic::simt {
namespace {

constexpr std::int64_t kAnyGrid = 2147483647;

// Sources. CUDA: "CUDA C++ Programming Guide", compute capabilities table (9.0). HIP: AMD "HIP hardware
// features" and "HIP programming model" for CDNA2 (gfx90a). MUSA: musaInfo output in the MUSA SDK 5.2
// installation guide (S5000) and in a published port's notes (S4000, SDK 3.1.0 and 5.1.0); llama.cpp pull
// request 26141 for mp_21's 28 KB of shared memory. "unverified": inferred, no public statement found.
constexpr DeviceRecord kTargets[] = {
    {
        .name = "simt:cuda",
        .hardware_warp = 32,
        .device_warp_size = 32,
        .host_warp_size = 32,
        .max_exchange_width = 32,
        .whole_warp_exchanges = false,  // CUDA guide, warp shuffle functions: the lanes named in the mask
        .mask_bits = 32,
        .max_threads_per_block = 1024,
        .max_block = {1024, 1024, 64},
        .max_grid = {kAnyGrid, 65535, 65535},
        .max_grid_threads = 0,
        .max_shared_bytes = 227 * 1024,
        .max_static_shared_bytes = 48 * 1024,
        .constant_bytes = 64 * 1024,
        .max_parameter_bytes = 4096,  // more is allowed from 7.0 on with CUDA 12.1; older ones are not
        .multiprocessors = 132,
        .max_threads_per_multiprocessor = 2048,
        .max_blocks_per_multiprocessor = 32,
        .has_bfloat16 = true,
        .has_fp8 = true,
    },
    {
        .name = "simt:hip",
        .hardware_warp = 64,
        .device_warp_size = 64,
        .host_warp_size = 64,
        .max_exchange_width = 64,
        .whole_warp_exchanges = false,
        .mask_bits = 64,  // HIP cross-lane functions: 64-bit masks, a 32-bit one is refused at compile time
        .max_threads_per_block = 1024,
        .max_block = {1024, 1024, 1024},
        .max_grid = {kAnyGrid, 65535, 65535},
        .max_grid_threads = 4294967295,  // HIP: grid times block stays below 2^32
        .max_shared_bytes = 64 * 1024,
        .max_static_shared_bytes = 64 * 1024,
        .constant_bytes = 64 * 1024,  // unverified: HIP places it in global memory
        .max_parameter_bytes = 4096,  // HIP programming guide
        .multiprocessors = 104,
        .max_threads_per_multiprocessor = 2048,
        .max_blocks_per_multiprocessor = 32,  // unverified
        .has_bfloat16 = true,
        .has_fp8 = false,  // CDNA2; CDNA3 has it
    },
    {
        .name = "simt:musa-mp31",
        .hardware_warp = 32,  // SDK 5.2 installation guide, musaInfo; warp functions page
        .device_warp_size = 32,
        .host_warp_size = 32,
        .max_exchange_width = 32,
        .whole_warp_exchanges = true,  // unverified: one program counter per warp (performance tuning guide)
        .mask_bits = 32,               // warp functions page: unsigned, 32 bits
        .max_threads_per_block = 1024,
        .max_block = {1024, 1024, 1024},
        .max_grid = {kAnyGrid, kAnyGrid, kAnyGrid},
        .max_grid_threads = 0,
        .max_shared_bytes = 192 * 1024,
        .max_static_shared_bytes = 192 * 1024,  // unverified: whether static memory needs no opt-in
        .constant_bytes = 8 * 1024,
        .max_parameter_bytes = 4096,  // unverified
        .multiprocessors = 56,
        .max_threads_per_multiprocessor = 3072,
        .max_blocks_per_multiprocessor = 32,  // unverified
        .has_bfloat16 = true,
        .has_fp8 = true,  // torch_musa: scaled products from arch 310
    },
    {
        .name = "simt:musa-mp22",
        .hardware_warp = 128,
        .device_warp_size = 32,        // measured on an S4000, SDK 5.1.0
        .host_warp_size = 128,         // musaInfo, SDK 3.1.0 and 5.1.0
        .max_exchange_width = 32,      // wider ones gave wrong lanes, S4000, SDK 5.1.0
        .whole_warp_exchanges = true,  // the same report lets all threads execute each exchange
        .mask_bits = 32,
        .max_threads_per_block = 1024,
        .max_block = {1024, 1024, 1024},
        .max_grid = {kAnyGrid, kAnyGrid, kAnyGrid},
        .max_grid_threads = 0,
        .max_shared_bytes = 72 * 1024,
        .max_static_shared_bytes = 72 * 1024,  // unverified: whether static memory needs no opt-in
        .constant_bytes = 8 * 1024,
        .max_parameter_bytes = 4096,  // unverified
        .multiprocessors = 56,
        .max_threads_per_multiprocessor = 6144,
        .max_blocks_per_multiprocessor = 32,  // unverified
        .has_bfloat16 = true,
        .has_fp8 = false,
    },
    {
        .name = "simt:musa-mp21",
        .hardware_warp = 128,
        .device_warp_size = 32,  // unverified: as mp_22
        .host_warp_size = 128,   // unverified: as mp_22
        .max_exchange_width = 32,
        .whole_warp_exchanges = true,
        .mask_bits = 32,
        .max_threads_per_block = 1024,
        .max_block = {1024, 1024, 1024},
        .max_grid = {kAnyGrid, kAnyGrid, kAnyGrid},
        .max_grid_threads = 0,
        .max_shared_bytes = 28 * 1024,
        .max_static_shared_bytes = 28 * 1024,
        .constant_bytes = 8 * 1024,              // unverified: as mp_22
        .max_parameter_bytes = 4096,             // unverified
        .multiprocessors = 32,                   // unverified
        .max_threads_per_multiprocessor = 6144,  // unverified: as mp_22
        .max_blocks_per_multiprocessor = 32,     // unverified
        .has_bfloat16 = false,                   // torch_musa stores it as int16 there
        .has_fp8 = false,
    },
    {},
};

const DeviceRecord* current = &kTargets[0];

}  // namespace

// Exported, as current_target() is: the program is linked with the shared library.
[[gnu::visibility("default")]] const DeviceRecord* targets() { return kTargets; }

const DeviceRecord& find_target(const char* name) {
  std::string known;
  for (const DeviceRecord* t = kTargets; t->name != nullptr; ++t) {
    if (std::strcmp(t->name, name) == 0) return *t;
    known += std::string(known.empty() ? "" : ", ") + t->name;
  }
  throw Error("simt", "target", name, "one of " + known);
}

void use_target(const char* name) {
  const DeviceRecord& next = find_target(name);
  synchronize();
  current = &next;
}

[[gnu::visibility("default")]] const DeviceRecord& current_target() { return *current; }

Properties properties(int device) {
  if (device < 0 || device >= kDevices)
    throw Error("simt", "device", std::to_string(device), "0 to " + std::to_string(kDevices - 1));
  return {current->name,
          current->host_warp_size,
          current->multiprocessors,
          current->max_threads_per_block,
          current->max_shared_bytes,
          current->constant_bytes};
}

bool has_feature(const DeviceRecord& record, Feature feature) {
  return feature == Feature::kNone || (feature == Feature::kBFloat16 ? record.has_bfloat16 : record.has_fp8);
}

}  // namespace musaic::simt
