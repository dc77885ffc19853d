// Memory over one iteration: what each kernel needs at once and what is alive while it runs.
// Layer: analysis (G10 section 3, figure 2).
#pragma once

#include <vector>

#include "analysis/vitality.h"
#include "trace/trace.h"

namespace spillway {

struct KernelMemory {
  Bytes active_bytes = 0;  // the kernel's operands, its scratch included, each once
  Bytes live_bytes = 0;    // all that is alive: the operands, idle tensors, every persistent tensor
};

struct MemoryCurve {
  std::vector<KernelMemory> kernels;  // by KernelIndex
  Bytes peak_live_bytes = 0;
  KernelIndex peak_kernel = 0;  // the first with the most live bytes; 0 for an empty trace
  Bytes largest_working_set_bytes = 0;
  KernelIndex largest_working_set_kernel = 0;  // the first with the most active bytes
};

// Each tensor counts as its size rounded up to a multiple of `granularity_bytes` (not 0; the page
// or the frame that memory is given out in). A persistent tensor that no kernel uses is alive all
// the same. Linear in the number of accesses. The trace must be valid, the vitality that trace's
// own.
[[nodiscard]] MemoryCurve memory_curve(const Trace& trace, const Vitality& vitality,
                                       Bytes granularity_bytes = 1);

}  // namespace spillway
