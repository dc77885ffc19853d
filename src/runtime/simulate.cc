// Putting policy, engine and simulator together. See simulate.h.
#include "runtime/simulate.h"

#include <algorithm>
#include <span>
#include <utility>

#include "platform/sim/replay.h"
#include "platform/sim/simulator.h"
#include "policy/admission_governor.h"

namespace spillway {

TimeNs SimulationResult::overlap_ns() const {
  return std::clamp<TimeNs>(transfer_busy_ns - stall_ns(), 0, ideal_ns);
}

namespace {

// Behind the last iteration the host must have enough to issue to stay as far ahead as it may.
std::uint32_t iterations_behind(const Trace& trace, std::uint32_t queue_depth) {
  const std::size_t kernels = std::max<std::size_t>(trace.kernels.size(), 1);
  return static_cast<std::uint32_t>((queue_depth + kernels - 1) / kernels);
}

TimeNs ideal_ns(const Program& program, std::span<const std::uint32_t> graphs) {
  TimeNs sum_ns = 0;
  for (const std::uint32_t graph : graphs) {
    for (const Kernel& kernel : program.graphs[graph]) {
      sum_ns += kernel.duration_ns;
    }
  }
  return sum_ns;
}

// Tiers that are too small for the program under a policy are an answer, not a failure.
tl::unexpected<Error> cannot_run(const PolicyInfo& policy, const Error& error) {
  const ErrorCode code = error.code == ErrorCode::kUnsupported ? ErrorCode::kCannotRun : error.code;
  return tl::unexpected<Error>(Error{code, fmt::format("{}: {}", policy.name, error.message)});
}

PolicyTraits traits_of(const PolicyInfo& policy, bool as_run) {
  PolicyTraits traits = policy.traits;
  if (as_run) {
    traits.told_of_deaths = true;
    traits.reclaims_dead_first = true;
    traits.clean_copies = CleanCopies::kAll;
  }
  return traits;
}

sim::ReplayOptions replay_options(const Machine& machine, const PolicyInfo& policy,
                                  const PolicyTraits& traits, const SimulationOptions& options,
                                  bool on_gpu) {
  const bool shares = on_gpu && policy.plan == nullptr;
  return {.tells_deaths = traits.told_of_deaths,
          .pages = traits.pages,
          .queue_depth = options.queue_depth,
          .launch_ns = machine.host.launch_ns,
          .tracked_ns = on_gpu ? machine.host.tracked_ns : 0,
          .block_bytes = sim::block_bytes(machine),
          .shared_frame_bytes = shares ? machine.device.frame_bytes : 0,
          .near_optimizer = options.near_optimizer,
          .update_bytes_per_s = machine.host.update_bytes_per_s()};
}

// Of the iterations between `before` and `last`, and of the devices until now.
SimulationResult result_of(const sim::Simulator& simulator, const sim::Replay& replay,
                           const sim::IterationResult& before, const sim::IterationResult& last,
                           std::uint32_t iterations) {
  SimulationResult result;
  result.iterations = iterations;
  result.iteration_ns = (last.ended_ns - before.ended_ns) / iterations;
  result.transfer_busy_ns = (last.transfer_busy_ns - before.transfer_busy_ns) / iterations;
  result.stats = difference(last.stats, before.stats);
  result.kernel_stalls_ns = last.kernel_stalls_ns;
  result.write_amplification = simulator.transfers().flash().stats().write_amplification();
  result.storage_lifetime_years = simulator.transfers().flash().lifetime_years(simulator.now_ns());
  result.host_peak_bytes = replay.host_peak_bytes();
  result.events = simulator.events();
  return result;
}

}  // namespace

Result<SimulationResult> simulate(const Trace& trace, const Machine& machine,
                                  const PolicyInfo& policy, const SimulationOptions& options) {
  const bool updates = options.near_optimizer != sim::NearOptimizer::kOff;
  if (updates && machine.host.update_bytes_per_s() == 0) {
    return make_error(ErrorCode::kInvalidInput,
                      "machine {} does not say how fast its host updates: set "
                      "host.memory_bandwidth, or host.cores and host.core_bandwidth",
                      machine.name);
  }
  const bool ahead = options.queue_depth > 0 && policy.make_with_queue != nullptr;
  Result<std::unique_ptr<Policy>> made =
      (ahead ? policy.make_with_queue : policy.make)(trace, machine, options.policy);
  if (!made) {
    return tl::unexpected<Error>(made.error());
  }
  const std::uint32_t iterations = options.warm_up_iterations + options.iterations;
  Result<Program> program =
      perturb(trace, options.perturbation, iterations, options.perturbation_seed);
  if (!program) {
    return tl::unexpected<Error>(program.error());
  }
  const std::vector<std::uint32_t> graphs = program->iterations;
  const std::span measured = std::span(graphs).subspan(options.warm_up_iterations);
  const TimeNs ideal_each_ns = ideal_ns(*program, measured) / options.iterations;

  const PolicyTraits traits = traits_of(policy, options.as_run);
  // Where handles take time, `spillway run` has the CUDA platform: its heap, and its governor.
  const bool on_gpu = options.as_run && machine.handles.cost_time();
  AdmissionGovernor governor(**made);
  sim::Simulator simulator(machine, sim::simulator_options(machine, traits),
                           on_gpu ? governor : **made);
  sim::Replay replay(std::move(*program), replay_options(machine, policy, traits, options, on_gpu),
                     simulator);
  if (const Status status = replay.prepare(); !status) {
    return cannot_run(policy, status.error());
  }
  governor.alive_at_most(replay.peak_bytes(), machine.device.capacity_bytes);
  sim::IterationResult before{.ended_ns = simulator.now_ns(),
                              .transfer_busy_ns = simulator.transfers().busy_ns(),
                              .stats = simulator.engine().stats(),
                              .kernel_stalls_ns = {}};
  const Result<std::vector<sim::IterationResult>> ran =
      replay.run(graphs, iterations_behind(trace, options.queue_depth));
  if (!ran) {
    return cannot_run(policy, ran.error());
  }
  if (const Status sound = simulator.engine().check_invariants(); !sound) {
    return cannot_run(policy, sound.error());
  }
  if (options.warm_up_iterations > 0) {
    before = (*ran)[options.warm_up_iterations - 1];
  }
  SimulationResult result = result_of(simulator, replay, before, ran->back(), options.iterations);
  result.ideal_ns = ideal_each_ns;
  return result;
}

}  // namespace spillway
