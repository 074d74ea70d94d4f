// Declarations alone, of names that public code built for torch_musa uses; for compiling our vendor file without it.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>

namespace at {

struct PhiloxMusaState {
  union Payload {
    std::uint64_t val;
    std::int64_t* ptr;
  };
  Payload seed_{};
  Payload offset_{};
  std::uint32_t offset_intragraph_ = 0;
  bool captured_ = false;
};

struct MUSAGeneratorImpl : public c10::GeneratorImpl {
  static c10::DeviceType device_type();
  PhiloxMusaState philox_musa_state(std::uint64_t increment);
};

namespace musa::detail {

const Generator& getDefaultMUSAGenerator(DeviceIndex device_index = -1);

}  // namespace musa::detail
}  // namespace at
