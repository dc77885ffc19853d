// How long an iteration would take under a plan, tensor by tensor: a planner's own quick look at
// what it has planned. Layer: policy. Coarser than the simulator (no blocks, batches or faults),
// and without its own idea of what to move: it only follows the plan.
#pragma once

#include <vector>

#include "machine/machine.h"
#include "policy/planning/plan.h"
#include "trace/trace.h"

namespace spillway {

struct PlanEstimate {
  TimeNs iteration_ns = 0;
  // By kernel: from the end of the one before it to its own end, waiting included.
  std::vector<TimeNs> slot_ns;
};

// Of the second of two iterations: the first one begins with an empty device.
[[nodiscard]] PlanEstimate estimate_plan(const Plan& plan, const Trace& trace,
                                         const Machine& machine);

}  // namespace spillway
