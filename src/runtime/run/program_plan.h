// A plan for the iteration that a program has just shown, on the machine as the run has met it so
// far. Layer: runtime.
#pragma once

#include <optional>
#include <string>

#include "platform/common/program_platform.h"
#include "platform/common/storage/link_throttle.h"
#include "policy/prediction/recorded_iteration.h"
#include "policy/registry.h"

namespace spillway {

// The plan for one iteration, in figures.
struct PlanReport {
  std::uint64_t number = 1;  // of the plans that the run has asked for; this is the last one
  std::uint64_t launches = 0;
  std::uint64_t tensors = 0;
  Bytes peak_bytes = 0;  // of what is alive at once
  Bytes to_host_bytes = 0;
  Bytes to_storage_bytes = 0;
  TimeNs computation_ns = 0;  // the launches' own time
  TimeNs estimated_ns = 0;    // with waiting, as the planner sees it
  std::string error;          // why there is no plan; else empty
};

struct ProgramPlan {
  std::optional<Plan> plan;
  PlanReport report;
};

// By the planner of `info`, which must have one.
[[nodiscard]] ProgramPlan plan_for_program(const PolicyInfo& info,
                                           const RecordedIteration& iteration,
                                           const ProgramPlatform& platform, const LinkSpeed& link,
                                           const PolicyOptions& options);

}  // namespace spillway
