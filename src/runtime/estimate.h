// Whether a training step fits a machine, how long it takes there with memory enough and under a
// policy, and what makes it slower. Layer: runtime. docs/commands.md (estimate).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "analysis/batch_memory.h"
#include "analysis/checkpointing.h"
#include "base/error.h"
#include "machine/machine.h"
#include "runtime/batch.h"
#include "trace/trace.h"

namespace spillway {

// Of a step in a machine's device memory, by itself.
enum class Fits {
  kYes,     // with the room that fits_in_bytes asks for
  kBarely,  // without that
  kNo,
};

// What a step waits for most.
enum class Limit {
  kComputation,  // the kernels
  kIssuing,      // the program, which issues them more slowly than the device would run them
  kLink,
  kStorage,
  kHandles,  // the calls that give blocks device memory (docs/gpu.md)
  kSeveral,  // none of them by itself
};

// "computation", "issuing launches", ...
[[nodiscard]] std::string_view name_of(Limit limit);
[[nodiscard]] std::string_view name_of(Fits fits);

// What is alive at once at the highest, in sizes as PyTorch's allocator gives them. The trace must
// be valid.
[[nodiscard]] Bytes peak_bytes_of(const Trace& trace);
[[nodiscard]] Fits fits_in_device(Bytes peak_bytes, const Machine& machine);

// How the peak grows between two recordings with batches of different size, in the same sizes;
// fails as BatchMemory::between does.
[[nodiscard]] Result<BatchMemory> growth_between(const BatchMemory::Recording& one,
                                                 const BatchMemory::Recording& other);
// What of a step can be checkpointed by hand, in the same sizes; fails as find_checkpoints does.
[[nodiscard]] Result<Checkpoints> checkpoints_of(const Trace& trace);
// The largest batch with which the step fits with room; 0 if there is none.
[[nodiscard]] std::uint64_t largest_batch(const BatchMemory& memory, const Machine& machine);

struct EstimateCase {
  std::size_t trace = 0;  // index into the trace files; its times are this machine's
  Machine machine;
  std::optional<std::size_t> checkpointed{};  // the same step with checkpointing, where known
};

struct Estimate {
  SimulationResult unlimited;  // with device memory enough, whatever the machine has
  // Under the policy; kCannotRun, and why, where all tiers together do not do.
  Result<SimulationResult> limited;
  Limit limit = Limit::kComputation;
  // With checkpointing, under the policy as well; kCannotRun as above.
  std::optional<Result<SimulationResult>> checkpointed{};

  // How many times as long a step takes for want of device memory.
  [[nodiscard]] double slowdown() const {
    return static_cast<double>(limited->iteration_ns) / static_cast<double>(unlimited.iteration_ns);
  }
};

// As simulated steps are compared with measured ones (docs/results.md).
[[nodiscard]] SimulationOptions estimate_options();

// Runs all jobs, as run_batch does.
using BatchRunner = std::function<std::vector<BatchOutcome>(std::span<const BatchJob>)>;

// One for each case, in order. What limits a step that is slower than with memory enough is found
// by simulating machines on which one thing at a time is twice as fast: `run` is called once for
// all cases and then, where there is such a step, once more. Fails where a trace cannot be read or
// a simulation fails for another reason than the tiers' sizes.
[[nodiscard]] Result<std::vector<Estimate>> estimate(std::span<const EstimateCase> cases,
                                                     const PolicyInfo& policy,
                                                     const BatchRunner& run);

}  // namespace spillway
