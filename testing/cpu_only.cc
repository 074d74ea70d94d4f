// Linked into the test programs of operators that have no form for GPUs yet.
#include "testing/testing.h"

namespace musaic::testing {

bool has_gpu_form() { return false; }

}  // namespace musaic::testing
