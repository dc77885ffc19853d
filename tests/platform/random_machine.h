// What a random program runs on: a machine with room for a few blocks, any rates and sometimes a
// tier less, what fails on it, and how the engine is set up.
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "base/units.h"
#include "machine/machine.h"
#include "platform/sim/simulator.h"

namespace spillway::sim {

inline Bytes some_blocks(Rng& rng, std::uint64_t least, std::uint64_t most) {
  return (least + rng.below(most - least + 1)) * kBlockBytes + rng.below(512) * kPageBytes;
}

// `scale`: how many times larger than with room for a few blocks of kBlockBytes.
inline Machine random_machine(Rng& rng, Bytes scale) {
  Machine machine;
  machine.name = "random";
  machine.device.capacity_bytes = scale * some_blocks(rng, 3, 24);
  machine.device.frame_bytes = Bytes{4096} << (rng.chance(0.5) ? 0 : rng.below(10));
  machine.host.capacity_bytes = rng.chance(0.15) ? 0 : scale * some_blocks(rng, 1, 48);
  machine.link.to_device_bytes_per_s = 1e9 * (1 + rng.uniform() * 50);
  machine.link.from_device_bytes_per_s = 1e9 * (1 + rng.uniform() * 50);
  machine.link.latency_ns = static_cast<TimeNs>(rng.below(20 * kNsPerUs));
  machine.faults.model = rng.chance(0.5) ? FaultModel::kReplayable : FaultModel::kLaunch;
  machine.faults.latency_ns = static_cast<TimeNs>(rng.below(100 * kNsPerUs));
  machine.storage.read_bytes_per_s = 1e8 * (1 + rng.uniform() * 60);
  machine.storage.write_bytes_per_s = 1e8 * (1 + rng.uniform() * 60);
  machine.storage.read_latency_ns = static_cast<TimeNs>(rng.below(100 * kNsPerUs));
  machine.storage.write_latency_ns = static_cast<TimeNs>(rng.below(100 * kNsPerUs));
  machine.storage.erase_block_bytes = Bytes{256 * kKiB} << rng.below(4);
  machine.storage.over_provisioning = rng.uniform() * 0.3;
  machine.storage.erase_latency_ns = static_cast<TimeNs>(rng.below(kNsPerMs));
  machine.storage.capacity_bytes = rng.chance(0.3) ? 0 : scale * some_blocks(rng, 1, 64);
  // From numbers of its own: programs are what they were before there were handles.
  Rng more = rng;
  if (more.chance(0.4)) {
    const auto some_ns = [&more] { return static_cast<TimeNs>(more.below(60 * kNsPerUs)); };
    machine.handles = {.create_ns = some_ns(),
                       .release_ns = some_ns(),
                       .map_ns = some_ns(),
                       .map_wait_ns = 10 * some_ns(),
                       .unmap_ns = some_ns()};
    machine.faults.batches_in_flight = 1 + static_cast<std::uint32_t>(more.below(4));
    machine.handles.clear_bytes_per_s =
        more.chance(0.5) ? 0 : 1e9 * static_cast<double>(1 + more.below(100));
  }
  return machine;
}

// Few or none for most seeds; for some so many that the engine has to give up.
inline FailureModel random_failures(Rng& rng) {
  FailureModel failures;
  failures.seed = rng.next();
  const bool any = rng.chance(0.7);
  const bool hopeless = rng.chance(0.04);
  failures.transfer_fails = hopeless ? 0.95 : any ? rng.uniform() * 0.2 : 0;
  failures.storage_write_fails = any ? rng.uniform() * 0.2 : 0;
  failures.storage_slow = rng.chance(0.5) ? rng.uniform() * 0.3 : 0;
  return failures;
}

inline EngineOptions random_engine_options(Rng& rng, const Machine& machine) {
  EngineOptions options = engine_options(machine);
  options.clean_copies = static_cast<CleanCopies>(rng.below(3));
  options.host_batch_bytes = some_blocks(rng, 0, 8) + 1;
  options.storage_batch_bytes = some_blocks(rng, 0, 4) + 1;
  options.eviction_batch_bytes = some_blocks(rng, 0, 2) + 1;
  options.batches_in_flight = 1 + static_cast<std::uint32_t>(rng.below(3));
  options.room_ahead_bytes = some_blocks(rng, 0, 8);
  return options;
}

}  // namespace spillway::sim
