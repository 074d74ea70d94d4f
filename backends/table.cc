// The operators of one backend, or of one instruction set of the CPU: null for a folder without a form for it.
#include "backends/backend.h"

namespace musaic {
namespace MUSAIC_TARGET {
#define MUSAIC_OP(name, Args, folder, schema) void name(const Args&, Stream);
#include "ops/list.inc"
#undef MUSAIC_OP

extern const OpTable op_table;
const OpTable op_table = {
#define MUSAIC_OP(name, Args, folder, schema) \
  []() -> void (*)(const Args&, Stream) {     \
    if constexpr (MUSAIC_HAS_##folder)        \
      return &MUSAIC_TARGET::name;            \
    else                                      \
      return nullptr;                         \
  }(),
#include "ops/list.inc"
#undef MUSAIC_OP
};
}  // namespace MUSAIC_TARGET
}  // namespace musaic
