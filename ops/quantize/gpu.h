// Row programs, and a maximum over all blocks by atomics, whose order does not matter.
#pragma once

#include "backends/backend.h"
#include "ops/quantize/core.h"
