// Up to which batch size Spillway alone is the better way to more memory than a machine has.
// Layer: runtime. docs/commands.md (estimate).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "analysis/batch_steps.h"
#include "analysis/checkpointing.h"
#include "machine/machine.h"
#include "runtime/estimate.h"

namespace spillway {

struct BatchCase {
  const BatchSteps* steps = nullptr;         // with this machine's times
  const Checkpoints* checkpoints = nullptr;  // of these steps; none: they are not known
  Machine machine;
  std::uint64_t fits = 0;  // the largest batch that fits without Spillway; 0: none
};

struct WorthUpTo {
  std::uint64_t batch = 0;  // 0: none
  bool or_more = false;     // larger ones were not tried
};

// Puts a trace where the runner finds it, and returns its index there.
using TraceKeeper = std::function<Result<std::size_t>(const Trace&)>;

// One for each case, in order: the largest batch, up to a sixteenth less, of which a step under the
// policy takes no longer than with checkpointing by hand, also under the policy where that does not
// fit either; without checkpoints, no longer than kWorth times the step with memory enough. A batch
// that fits is worth it. `run` is called at most three times, with at most eight short simulations
// for each case. Fails as `keep` does, and where a simulation fails for another reason than the
// tiers' sizes.
inline constexpr double kWorth = 1.5;
[[nodiscard]] Result<std::vector<WorthUpTo>> worth_up_to(std::span<const BatchCase> cases,
                                                         const PolicyInfo& policy,
                                                         const TraceKeeper& keep,
                                                         const BatchRunner& run);

}  // namespace spillway
