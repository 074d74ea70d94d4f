// All that a kernel may use. The backend that compiles a kernel sets two things: MUSAIC_TARGET, the namespace
// of its code (cpu_v3, ...), and the include path that "primitives.h" is found on.
#pragma once

#include "device/fault.h"
#include "device/group.h"
#include "device/math.h"
#include "device/number.h"
#include "device/philox.h"
#include "device/rows.h"
#include "device/vec.h"
#include "device/weights.h"
#include "device/wide.h"
