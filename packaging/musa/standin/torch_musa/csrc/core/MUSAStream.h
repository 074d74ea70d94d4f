// Declarations alone, of names that public code built for torch_musa uses; for compiling our vendor file without it.
#pragma once

#include <c10/core/Stream.h>

struct MUstream_st;
using musaStream_t = MUstream_st*;

namespace c10::musa {

class MUSAStream {
 public:
  explicit MUSAStream(Stream stream);
  musaStream_t stream() const;
};

MUSAStream getCurrentMUSAStream(DeviceIndex device_index = -1);

}  // namespace c10::musa
