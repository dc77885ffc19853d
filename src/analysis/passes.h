// Where in a training step the forward pass ends and the backward pass begins. Layer: analysis.
//
// A trace does not say it, so it is read off lifetimes: what the forward pass keeps for the
// backward pass lies idle across the turn, so most tensors lie idle there at once. Gradients, which
// the optimizer's step reads, do not count. With accumulated gradients or several models there are
// several turns.
#pragma once

#include <vector>

#include "analysis/vitality.h"
#include "trace/trace.h"

namespace spillway {

struct Pass {
  KernelIndex begin = 0;  // of the forward pass
  KernelIndex turn = 0;   // the first kernel that reads what was kept; more than `begin`
  KernelIndex end = 0;    // behind the backward pass, and what follows until the next pass
};

// In order; together they are the whole step. None where few tensors lie idle: no training step.
// The trace must be valid, the vitality that trace's own. Linear in accesses, but for the number of
// passes.
[[nodiscard]] std::vector<Pass> find_passes(const Trace& trace, const Vitality& vitality);

}  // namespace spillway
