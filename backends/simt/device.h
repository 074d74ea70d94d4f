// The simulated devices: one record of limits and habits per target. One build serves all of them.
#pragma once

#include <cstdint>

namespace musaic::simt {

/// What a target's hardware allows and how it behaves. Rules marked "unverified" in device.cc were inferred.
struct DeviceRecord {
  const char* name;           // "simt:cuda"
  int hardware_warp;          // threads that execute together
  int device_warp_size;       // `warpSize` in a kernel
  int host_warp_size;         // the property that the host reads; not always the same
  int max_exchange_width;     // wider exchanges deliver wrong lanes
  bool whole_warp_exchanges;  // every thread of the hardware warp has to reach an exchange, whatever its mask
  int mask_bits;              // width of an exchange's mask
  int max_threads_per_block;
  std::int64_t max_block[3];
  std::int64_t max_grid[3];
  std::int64_t max_grid_threads;  // 0: no limit of its own
  std::int64_t max_shared_bytes;  // per block, static and dynamic together
  std::int64_t max_static_shared_bytes;
  std::int64_t constant_bytes;
  std::int64_t max_parameter_bytes;
  int multiprocessors;
  int max_threads_per_multiprocessor;
  int max_blocks_per_multiprocessor;
  bool has_bfloat16;
  bool has_fp8;
};

/// All targets, ended by a record without a name.
const DeviceRecord* targets();
/// The record of "simt:cuda", ...; musaic::Error that lists the names if there is none.
const DeviceRecord& find_target(const char* name);

/// How many devices are simulated side by side, all of the current target.
inline constexpr int kDevices = 4;

/// Makes a target current. Waits for all work first; memory stays.
void use_target(const char* name);
const DeviceRecord& current_target();

/// What a host program reads of a device. `warp_size` is the vendor's host property: on some targets it is
/// not what the device has, so no kernel's geometry may be computed from it.
struct Properties {
  const char* name;
  int warp_size;
  int multiprocessors;
  int max_threads_per_block;
  std::int64_t shared_bytes_per_block;
  std::int64_t constant_bytes;
};
Properties properties(int device = 0);

/// Number formats that a target may lack.
enum class Feature { kNone, kBFloat16, kFp8 };
bool has_feature(const DeviceRecord& record, Feature feature);

}  // namespace musaic::simt
