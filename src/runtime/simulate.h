// One trace, one machine, one policy: the time of an iteration and where it went. Layer: runtime.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/stats.h"
#include "machine/machine.h"
#include "platform/sim/replay.h"
#include "policy/registry.h"
#include "trace/perturb.h"
#include "trace/trace.h"

namespace spillway {

struct SimulationOptions {
  PolicyOptions policy;
  // Iterations before the one that is measured. One, as in G10's evaluation: a policy that learns
  // has seen each kernel once.
  std::uint32_t warm_up_iterations = 1;
  // Iterations that are measured.
  std::uint32_t iterations = 1;
  // How many launches the host may be ahead of the device (docs/simulator.md). 0: it waits for
  // each.
  std::uint32_t queue_depth = 0;
  // How iterations differ from each other (trace/perturb.h).
  Perturbation perturbation = Perturbation::kNone;
  std::uint64_t perturbation_seed = 1;
  // As `spillway run` has it, whatever a policy's paper says: it is told of deaths, dead memory
  // makes room first, and a block that has not been written since it came leaves without a copy.
  bool as_run = false;
  // Where the optimizer's updates run (docs/simulator.md).
  sim::NearOptimizer near_optimizer = sim::NearOptimizer::kOff;
};

// Of the measured iterations, unless a name says otherwise: times are their mean, counts their sum.
struct SimulationResult {
  TimeNs iteration_ns = 0;
  TimeNs ideal_ns = 0;  // the sum of kernel times
  TimeNs transfer_busy_ns = 0;
  EngineStats stats;
  std::uint32_t iterations = 1;                  // how many those are
  std::vector<TimeNs> kernel_stalls_ns;          // by kernel, of the last iteration
  double write_amplification = 1;                // of the whole run
  std::optional<double> storage_lifetime_years;  // of the whole run
  Bytes host_peak_bytes = 0;                     // in host memory at once, of the whole run
  std::uint64_t events = 0;                      // of the whole run

  [[nodiscard]] TimeNs stall_ns() const { return iteration_ns - ideal_ns; }
  [[nodiscard]] double fraction_of_ideal() const {
    return static_cast<double>(ideal_ns) / static_cast<double>(iteration_ns);
  }
  // Transfers that ran beside computation, and computation without transfers (G10 figure 12).
  [[nodiscard]] TimeNs overlap_ns() const;
};

// Fails with kCannotRun, and why, where the policy cannot run the trace on this machine. Safe to
// call from several threads.
[[nodiscard]] Result<SimulationResult> simulate(const Trace& trace, const Machine& machine,
                                                const PolicyInfo& policy,
                                                const SimulationOptions& options);

}  // namespace spillway
