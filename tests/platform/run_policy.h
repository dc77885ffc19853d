// A trace under a policy on the simulator, arranged as the policy's traits ask.
#pragma once

#include <array>
#include <memory>
#include <numeric>
#include <string_view>
#include <vector>

#include "platform/sim/replay.h"
#include "platform/sim/simulator.h"
#include "policy/registry.h"

namespace spillway::test {

struct PolicyRun {
  TimeNs iteration_ns = 0;
  EngineStats stats;  // of that iteration
  std::uint64_t events = 0;

  [[nodiscard]] Bytes moved_bytes() const {
    Bytes bytes = 0;
    for (const auto& to : stats.moved_bytes) bytes = std::accumulate(to.begin(), to.end(), bytes);
    return bytes;
  }
};

// The iteration after `warm_up` others. Fails where the policy cannot run, where the simulator
// finds contents lost, and where the engine's state is not sound in the end.
inline Result<PolicyRun> run_policy(const Trace& trace, const Machine& machine,
                                    std::string_view name, const PolicyOptions& policy_options = {},
                                    int warm_up = 1) {
  const PolicyInfo& info = *find_policy(name).value();
  Result<std::unique_ptr<Policy>> policy = info.make(trace, machine, policy_options);
  if (!policy) return tl::unexpected<Error>(policy.error());
  sim::Simulator simulator(machine, sim::simulator_options(machine, info.traits), **policy);
  sim::Replay replay(
      trace, {.tells_deaths = info.traits.told_of_deaths, .pages = info.traits.pages}, simulator);

  Status status = replay.prepare();
  if (!status) return tl::unexpected<Error>(status.error());
  const std::vector<std::uint32_t> first(static_cast<std::size_t>(warm_up), 0);
  if (const auto ran = replay.run(first); !ran) return tl::unexpected<Error>(ran.error());
  const TimeNs start_ns = simulator.now_ns();
  const EngineStats before = simulator.engine().stats();
  if (const auto ran = replay.run(std::array{0U}); !ran) {
    return tl::unexpected<Error>(ran.error());
  }
  status = simulator.engine().check_invariants();
  if (!status) return tl::unexpected<Error>(status.error());
  if (simulator.broken()) return tl::unexpected<Error>(*simulator.broken());
  return PolicyRun{.iteration_ns = simulator.now_ns() - start_ns,
                   .stats = difference(simulator.engine().stats(), before),
                   .events = simulator.events()};
}

}  // namespace spillway::test
