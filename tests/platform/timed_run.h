// A small machine of round numbers, and launches on it one after the other, whose times can be
// worked out by hand.
#pragma once

#include <gtest/gtest.h>

#include "platform/sim/simulator.h"
#include "policy/base_uvm.h"

namespace spillway::sim {

// 1 byte/ns each way, 100 ns a batch, 1000 ns a batch of faults; 4 blocks of device memory.
inline Machine simple_machine() {
  Machine machine;
  machine.name = "simple";
  machine.device.capacity_bytes = 4 * kBlockBytes;
  machine.host.capacity_bytes = 64 * kBlockBytes;
  machine.link = {.to_device_bytes_per_s = 1e9, .from_device_bytes_per_s = 1e9, .latency_ns = 100};
  machine.faults = {.model = FaultModel::kReplayable, .latency_ns = 1000, .batch_blocks = 32};
  return machine;
}

class TimedRun {
 public:
  explicit TimedRun(const Machine& machine)
      : simulator(machine, {.engine = engine_options(machine), .failures = {}}, policy) {}

  // How long the launch of 5000 ns took from its issue to its end.
  TimeNs launch(AllocationId id, AccessMode mode) {
    const Allocation& allocation = simulator.engine().space().allocation(id);
    const TimeNs start_ns = simulator.now_ns();
    simulator.issue(
        {.position = 0, .accesses = {{id, allocation.first_block, allocation.block_count, mode}}},
        5000);
    EXPECT_TRUE(simulator.run_until_idle().has_value());
    return simulator.now_ns() - start_ns;
  }
  // An allocation that was written, and has left for another, which filled the device and is free.
  AllocationId sent_away(std::uint64_t blocks) {
    const AllocationId gone = allocate(blocks);
    const AllocationId filling = allocate(4);
    launch(gone, AccessMode::kWrite);
    launch(filling, AccessMode::kWrite);
    simulator.free(filling);
    return gone;
  }
  AllocationId allocate(std::uint64_t blocks, Bytes block_bytes = kBlockBytes) {
    return simulator.allocate(blocks * kBlockBytes, 0, block_bytes).value();
  }

  BaseUvm policy;
  Simulator simulator;
};

inline constexpr auto kBlockNs = static_cast<TimeNs>(kBlockBytes);  // over a link of 1 byte/ns

}  // namespace spillway::sim
