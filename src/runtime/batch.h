// Many simulations over a few traces, side by side. Layer: runtime.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "machine/machine.h"
#include "policy/registry.h"
#include "runtime/simulate.h"

namespace spillway {

struct BatchJob {
  std::size_t trace = 0;  // index into the trace files
  Machine machine;
  const PolicyInfo* policy = nullptr;
  SimulationOptions options;
};

// What is left of a trace once it has been released.
struct TraceFacts {
  std::string model;
  std::uint64_t batch_size = 0;
  TimeNs ideal_ns = 0;                      // the sum of kernel times
  std::vector<TimeNs> kernel_durations_ns;  // by kernel
};

struct BatchOutcome {
  // Fails as read_trace does; then `result` has the same error.
  Result<TraceFacts> trace;
  // Fails with kCannotRun where the policy cannot run the trace.
  Result<SimulationResult> result;
  double wall_s = 0;  // what the simulation took, without reading the trace
};

// Runs every job on `workers` threads (at least one, at most as many as jobs) and returns the
// outcomes in the order of the jobs; they do not depend on the number of threads. Each trace is
// read once, shared, and released after its last job: at most `workers` traces are in memory.
// `on_done` is called with the number of jobs done after each of them, from any of the threads but
// never from two at once; it may be empty.
[[nodiscard]] std::vector<BatchOutcome> run_batch(
    std::span<const std::filesystem::path> trace_files, std::span<const BatchJob> jobs,
    std::size_t workers, const std::function<void(std::size_t done)>& on_done);

}  // namespace spillway
