// How a kernel reports what only it can see. Same memory layout on host and device.
#pragma once

#include <cstdint>

namespace musaic {

/// One per device, in memory that host and device both see. The first fault wins.
struct FaultRecord {
  std::uint32_t kind;   // DeviceFault
  std::uint32_t taken;  // 0: free; set by an atomic exchange before the rest is written
  const void* site;     // FaultSite on the host: which operator and argument
  std::int64_t row;
  std::int64_t value;
};

/// Static data of the host that names what a kernel complains about.
struct FaultSite {
  const char* op;
  const char* argument;
};

/// What a launcher hands to its kernel.
struct FaultSink {
  FaultRecord* record;
  const void* site;
};

}  // namespace musaic
