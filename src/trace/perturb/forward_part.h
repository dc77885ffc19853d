// Where the forward part of a training step ends. Layer: trace, internal to perturb.
#pragma once

#include "trace/trace.h"

namespace spillway {

// The number of kernels in the forward part of a valid trace, as trace/perturb.h defines it; at
// least 1. Linear in the trace.
[[nodiscard]] KernelIndex forward_kernels(const Trace& trace);

}  // namespace spillway
