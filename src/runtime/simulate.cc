// Putting policy, engine and simulator together. See simulate.h.
#include "runtime/simulate.h"

#include <algorithm>

#include "platform/sim/replay.h"
#include "platform/sim/simulator.h"

namespace spillway {

TimeNs SimulationResult::overlap_ns() const {
  return std::clamp<TimeNs>(transfer_busy_ns - stall_ns(), 0, ideal_ns);
}

Result<SimulationResult> simulate(const Trace& trace, const Machine& machine,
                                  const PolicyInfo& policy, const SimulationOptions& options) {
  Result<std::unique_ptr<Policy>> made = policy.make(trace, machine, options.policy);
  if (!made) {
    return tl::unexpected<Error>(made.error());
  }
  sim::Simulator simulator(machine, sim::simulator_options(machine, policy.traits), **made);
  sim::Replay replay(trace,
                     {.tells_deaths = policy.traits.told_of_deaths, .pages = policy.traits.pages},
                     simulator);

  Status status = replay.prepare();
  for (std::uint32_t i = 0; status && i < options.warm_up_iterations; ++i) {
    status = replay.iterate();
  }
  const TimeNs start_ns = simulator.now_ns();
  const TimeNs busy_ns = simulator.transfer_busy_ns();
  const EngineStats before = simulator.engine().stats();
  if (status) {
    status = replay.iterate();
  }
  if (status) {
    status = simulator.engine().check_invariants();
  }
  if (!status) {
    // Tiers that are too small for the program under this policy are an answer, not a failure.
    const ErrorCode code = status.error().code == ErrorCode::kUnsupported ? ErrorCode::kCannotRun
                                                                          : status.error().code;
    return tl::unexpected<Error>(
        {code, fmt::format("{}: {}", policy.name, status.error().message)});
  }

  SimulationResult result;
  result.iteration_ns = simulator.now_ns() - start_ns;
  for (const Kernel& kernel : trace.kernels) {
    result.ideal_ns += kernel.duration_ns;
  }
  result.transfer_busy_ns = simulator.transfer_busy_ns() - busy_ns;
  result.stats = difference(simulator.engine().stats(), before);
  result.kernel_stalls_ns = replay.kernel_stalls_ns();
  result.write_amplification = simulator.flash().stats().write_amplification();
  result.storage_lifetime_years = simulator.flash().lifetime_years(simulator.now_ns());
  result.events = simulator.events();
  return result;
}

}  // namespace spillway
