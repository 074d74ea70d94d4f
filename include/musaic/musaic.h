// musaic: sgl_kernel's operators, the same bits on every backend. This header brings in all of the public
// interface.
//
// Thread safety: operators may be called from any number of threads at once, on tensors that do not overlap
// in what is written. One call at a time uses the CPU's worker threads; the others run in their own thread,
// with the same bits. set_num_threads and the MUSAIC_CPU choice are for start-up.
#pragma once

#include "musaic/check.h"
#include "musaic/device.h"
#include "musaic/error.h"
#include "musaic/ops.h"
#include "musaic/registry.h"
#include "musaic/stream.h"
#include "musaic/tensor.h"
#include "musaic/version.h"
