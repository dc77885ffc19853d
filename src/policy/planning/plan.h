// Migrations decided ahead, tied to positions in the iteration. Layer: policy.
// What G10's compiler would write into the program (section 4.4, "Code Instrumentation", figure 9).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/types.h"
#include "trace/trace.h"

namespace spillway {

enum class PlanStep : std::uint8_t { kAlloc, kFree, kPrefetch, kPreEvict };

struct PlanAction {
  PlanStep step = PlanStep::kAlloc;
  TensorId tensor = 0;
  Tier to = Tier::kDevice;  // of a pre-eviction
};

struct Plan {
  // By kernel: what is done before it is launched. Pre-evictions and frees come first.
  std::vector<std::vector<PlanAction>> before;
  // What the planner expects: bytes copied down to each tier, and the time of an iteration.
  Bytes to_host_bytes = 0;
  Bytes to_storage_bytes = 0;
  TimeNs estimated_ns = 0;
  // Whether the planned device memory stays within the capacity at every kernel.
  bool fits = true;
};

// The instrumented program, one call a line (figure 9).
[[nodiscard]] std::string render_program(const Plan& plan, const Trace& trace);

}  // namespace spillway
