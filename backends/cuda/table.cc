// The operators that this backend has: null where no unit defines one.
#include "backends/backend.h"

namespace musaic {
namespace MUSAIC_TARGET {
#define MUSAIC_OP(name, Args, folder, schema) __attribute__((weak)) void name(const Args&, Stream);
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
