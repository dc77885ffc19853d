// What a seed makes before its program begins: a machine, what fails on it, the engine's options,
// the shape of the program, and the policy.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/rng.h"
#include "platform/adversarial_policy.h"
#include "platform/random/random_program.h"
#include "platform/random_machine.h"
#include "platform/sim/simulator.h"
#include "policy/profiled.h"
#include "policy/registry.h"
#include "trace/generate.h"

namespace spillway::sim {

// What a program is like. Seeds take them by turns.
enum class Kind : std::uint8_t {
  kOperators,  // launches on no stream, as operators on a host; memory dies between launches
  kStreams,    // a few launches in flight, on several streams that wait for each other
  kDeep,       // up to a thousand of them
  kThreads,    // beside launches, threads that fault; writes are tracked
};
inline constexpr std::uint64_t kKinds = 4;

struct RandomSetup {
  Kind kind = Kind::kOperators;
  Machine machine;
  SimulatorOptions options;
  ProgramShape shape;
  bool bursts = false;  // launches are issued until the shape allows no more, then they run
  std::unique_ptr<Policy> policy;
  Profiled* profiled = nullptr;  // the policy, if it takes plans at run time
  std::uint64_t tensors = 1;     // of the network that the policy has been planned for
  std::uint32_t kernels = 1;
};

inline void choose_shape(Rng& rng, RandomSetup& setup, Bytes scale) {
  ProgramShape& shape = setup.shape;
  shape.buffer_bytes_max = scale * kBlockBytes * (1 + rng.below(4));
  shape.launch_bytes_max = setup.machine.device.capacity_bytes / (1 + rng.below(3));
  shape.launches_in_flight_max = 1 + static_cast<std::uint32_t>(rng.below(4));
  shape.frame_bytes = setup.machine.device.frame_bytes;
  if (scale > 1 || rng.chance(0.6)) {
    shape.block_bytes_max = rng.chance(0.5) ? 64 * kMiB : 2 * kBlockBytes;
  }
  if (rng.chance(0.3)) {
    shape.buffers_max = 120;  // many of them smaller than a frame
  }
  shape.deaths_in_flight = setup.kind != Kind::kOperators || rng.chance(0.5);
  shape.reuses = shape.deaths_in_flight;
  if (setup.kind == Kind::kStreams || setup.kind == Kind::kDeep) {
    shape.streams = 1 + static_cast<std::uint32_t>(rng.below(5));
    shape.launches_in_flight_max = 2 + static_cast<std::uint32_t>(rng.below(14));
    shape.kernels = 12 + static_cast<std::uint32_t>(rng.below(30));
  }
  if (setup.kind == Kind::kDeep) {
    setup.bursts = true;
    shape.launches_in_flight_max =
        rng.chance(0.5) ? 1000 : 30 + static_cast<std::uint32_t>(rng.below(400));
    shape.duration_ns_max = 20 * kNsPerUs;
    shape.launch_bytes_max /= 1 + rng.below(4);
  }
  if (setup.kind == Kind::kThreads) {
    shape.threads = 1 + static_cast<std::uint32_t>(rng.below(6));
    shape.launches_in_flight_max = 1 + static_cast<std::uint32_t>(rng.below(12));
    // A thread cannot be told that a block is too large for the budget.
    const Bytes most = setup.machine.device.capacity_bytes / 8;
    Bytes& frame = setup.machine.device.frame_bytes;
    shape.frame_bytes = frame = std::min(frame, 64 * scale * kKiB);
    shape.block_bytes_max = most - most % frame;
  }
}

// Planned for a network that has nothing to do with the program, on a machine that can run it.
inline std::unique_ptr<Policy> planned_elsewhere(const PolicyInfo& info, bool with_queue,
                                                 const Trace& trace, Machine machine) {
  machine.storage.capacity_bytes = kGiB;
  const auto make =
      with_queue && info.make_with_queue != nullptr ? info.make_with_queue : info.make;
  while (true) {
    Result<std::unique_ptr<Policy>> made = make(trace, machine, {});
    if (made) {
      return std::move(*made);
    }
    machine.device.capacity_bytes *= 2;
  }
}

inline RandomSetup random_setup(Rng& rng, std::string_view policy_name, std::uint64_t seed) {
  RandomSetup setup;
  setup.kind = static_cast<Kind>(seed % kKinds);
  const Bytes scale = rng.chance(0.15) ? 32 : 1;
  setup.machine = random_machine(rng, scale);
  if (seed / kKinds % 2 == 0) {
    setup.machine.link.host_mapped_bytes_per_s = setup.machine.link.to_device_bytes_per_s;
  }
  setup.options.failures = random_failures(rng);
  if (seed % 14 == 9) {
    setup.options.failures.transfer_fails = 0.95;
  }
  choose_shape(rng, setup, scale);
  // Of the machine as it is, whatever of it the policy uses.
  setup.shape.budget_bytes_max = setup.machine.device.capacity_bytes;
  setup.shape.host_bytes_max = setup.machine.host.capacity_bytes;

  const MlpShape network{
      .batch_size = 512, .inputs = 512, .width = 1024, .layers = 4, .training = {}};
  const Trace trace = generate_mlp(network);
  setup.tensors = trace.tensors.size();
  setup.kernels = static_cast<std::uint32_t>(trace.kernels.size());
  bool reclaims_dead_first = rng.chance(0.8);
  setup.options.hold_launches = rng.chance(0.2);
  if (policy_name == "adversarial") {
    setup.policy = std::make_unique<AdversarialPolicy>(rng.next());
  } else if (policy_name == "profiled") {
    auto policy = std::make_unique<Profiled>("g10");
    setup.profiled = policy.get();
    setup.policy = std::move(policy);
  } else {
    const PolicyInfo* info = find_policy(policy_name).value();
    setup.policy = planned_elsewhere(*info, rng.chance(0.5), trace, setup.machine);
    setup.machine.host.capacity_bytes =
        info->traits.uses_host ? setup.machine.host.capacity_bytes : 0;
    setup.machine.storage.capacity_bytes =
        info->traits.uses_storage ? setup.machine.storage.capacity_bytes : 0;
    reclaims_dead_first = info->traits.reclaims_dead_first;
    setup.options.hold_launches = !info->traits.pages;
  }
  // Sometimes the program may ask for more than there is.
  const Bytes everything = setup.machine.device.capacity_bytes + setup.machine.host.capacity_bytes +
                           setup.machine.storage.capacity_bytes;
  setup.shape.live_bytes_max = everything / 10 * (4 + rng.below(8));

  setup.options.engine = random_engine_options(rng, setup.machine);
  setup.options.engine.reclaim_discarded_first = reclaims_dead_first;
  setup.options.engine.tracks_writes = setup.kind == Kind::kThreads;
  if (setup.kind != Kind::kThreads && rng.chance(0.4)) {
    setup.options.engine.release_early = setup.options.hold_launches = true;
  }
  return setup;
}

}  // namespace spillway::sim
