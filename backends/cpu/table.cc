// The operators of one instruction set; compiled once per set.
#include "backends/backend.h"

namespace musaic {
namespace MUSAIC_TARGET {
#define MUSAIC_OP(name, Args, folder, schema) void name(const Args&, Stream);
#include "ops/list.inc"
#undef MUSAIC_OP

extern const OpTable op_table;
const OpTable op_table = {
#define MUSAIC_OP(name, Args, folder, schema) &MUSAIC_TARGET::name,
#include "ops/list.inc"
#undef MUSAIC_OP
};
}  // namespace MUSAIC_TARGET
}  // namespace musaic
