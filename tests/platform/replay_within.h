// A step, replayed again and again on a GPU with too little memory for it.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "analysis/memory_curve.h"
#include "analysis/vitality.h"
#include "machine/load.h"
#include "platform/sim/replay.h"
#include "platform/sim/simulator.h"
#include "policy/registry.h"
#include "trace/validate.h"

namespace spillway::sim {

struct Replayed {
  EngineStats stats;             // of all iterations
  std::vector<TimeNs> times_ns;  // of each
  EngineStats last;              // of the last one
};

// Several iterations at a part of what is alive at once, as `lookahead` runs.
inline Replayed replay_within(double part, const Trace& trace, Policy& policy,
                              std::uint32_t queue_depth, std::size_t iterations = 4,
                              Machine machine = *load_machine("h200"),
                              Bytes block_bytes = kBlockBytes) {
  EXPECT_TRUE(validate_trace(trace, "the step"));
  const MemoryCurve curve = memory_curve(trace, analyze_vitality(trace));
  machine.device.capacity_bytes =
      round_up(static_cast<Bytes>(part * static_cast<double>(curve.peak_live_bytes)), kBlockBytes);
  machine.host.capacity_bytes = round_up(2 * curve.peak_live_bytes, kBlockBytes);
  Simulator simulator(machine, simulator_options(machine, (*find_policy("lookahead"))->traits),
                      policy);
  Replay replay(trace,
                {.tells_deaths = true,
                 .pages = false,
                 .queue_depth = queue_depth,
                 .launch_ns = machine.host.launch_ns,
                 .block_bytes = block_bytes,
                 .shared_frame_bytes = kBlockBytes},
                simulator);
  EXPECT_TRUE(replay.prepare());
  const auto ran = replay.run(std::vector<std::uint32_t>(iterations), 1);
  EXPECT_TRUE(ran) << (ran ? "" : ran.error().message);
  EXPECT_TRUE(simulator.engine().check_invariants());
  Replayed replayed{.stats = simulator.engine().stats(), .times_ns = {}, .last = {}};
  if (!ran) {
    return replayed;
  }
  for (std::size_t i = 1; i < ran->size(); ++i) {
    replayed.times_ns.push_back((*ran)[i].ended_ns - (*ran)[i - 1].ended_ns);
  }
  replayed.last = difference((*ran)[ran->size() - 1].stats, (*ran)[ran->size() - 2].stats);
  return replayed;
}

}  // namespace spillway::sim
