#include "backends/cpu/launch.h"
#include "ops/quantize/core.h"
