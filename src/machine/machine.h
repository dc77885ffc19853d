// A machine as data: tiers, links, latencies, flash. What a planner plans for and a simulator
// obeys. Layer: machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/units.h"

namespace spillway {

// How a launch meets a block that is not resident.
enum class FaultModel {
  kReplayable,  // unified memory: the device faults on access and replays; a launch whose blocks
                // are on their way runs while they arrive
  kLaunch,      // the launch is held back until all its blocks are resident (docs/cuda.md)
};

struct DeviceTier {
  Bytes capacity_bytes = 0;
  Bytes frame_bytes = kPageBytes;         // granularity in which device memory is given out
  Bytes block_bytes = kBlockBytes;        // a program's allocations move in blocks of so many bytes
  double zero_bandwidth_bytes_per_s = 0;  // 0: zeroing costs no time
  // What a launch gets of the device's memory that looks up rows of a table; 0: as others, the one
  // above.
  double row_bandwidth_bytes_per_s = 0;
  // What the vendor says, from which times of kernels are estimated where none were measured
  // (docs/traces.md); 0: not known. Operations a second are of dense matrices, added up in float32.
  double memory_bandwidth_bytes_per_s = 0;
  double bf16_flops_per_s = 0;  // float16 as well; where there is no bfloat16, float16's
  double tf32_flops_per_s = 0;  // where there is none, float32's
  double fp32_flops_per_s = 0;
  std::uint32_t processors = 0;   // streaming multiprocessors
  double compute_capability = 0;  // CUDA's, as 9.0
};

// Where each block's device memory is a handle: what the driver's calls take, which one thread
// makes one after the other, for a handle of any size. All 0: that a block has memory costs
// nothing.
struct Handles {
  TimeNs create_ns = 0;
  TimeNs release_ns = 0;
  TimeNs map_ns = 0;       // at an address, with access
  TimeNs map_wait_ns = 0;  // besides: until a copy out of the device has ended, but no longer
  TimeNs unmap_ns = 0;
  // What has been released is cleared at this rate by what copies into the device, which does half
  // as much meanwhile; 0: that costs nothing.
  double clear_bytes_per_s = 0;

  [[nodiscard]] bool cost_time() const {
    return create_ns + release_ns + map_ns + map_wait_ns + unmap_ns > 0 || clear_bytes_per_s > 0;
  }
};

struct HostTier {
  Bytes capacity_bytes = 0;
  TimeNs launch_ns = 0;   // what the program needs to issue one launch; 0: no time
  TimeNs tracked_ns = 0;  // more, where not all fits: of each launch somebody has to be told
  // What optimizer updates that run at the host get: of its memory, and of so many cores; 0: not
  // known. 28 bytes a parameter of Adam in float32.
  double memory_bytes_per_s = 0;
  std::uint32_t cores = 0;
  double core_bytes_per_s = 0;  // of one core

  // By whichever of the two is slower; 0: not known.
  [[nodiscard]] double update_bytes_per_s() const {
    const double by_cores = static_cast<double>(cores) * core_bytes_per_s;
    return by_cores == 0             ? memory_bytes_per_s
           : memory_bytes_per_s == 0 ? by_cores
                                     : std::min(memory_bytes_per_s, by_cores);
  }
};

// Host to device and back.
struct Link {
  double to_device_bytes_per_s = 0;  // each direction on its own
  double from_device_bytes_per_s = 0;
  double both_ways_bytes_per_s = 0;  // their sum, both at once; 0: each as if it were alone
  TimeNs latency_ns = 0;             // of one transfer batch
  // What launches read of host memory and write to it, over the link, both at once; 0: they cannot
  // (docs/cuda.md).
  double host_mapped_bytes_per_s = 0;
};

struct Faults {
  FaultModel model = FaultModel::kReplayable;
  TimeNs latency_ns = 0;                // handling one batch of faults
  std::uint32_t batch_blocks = 32;      // faulted blocks that one batch holds at most
  std::uint32_t batches_in_flight = 1;  // that are on their way at once
};

struct StorageTier {
  Bytes capacity_bytes = 0;  // 0: no storage
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;
  TimeNs read_latency_ns = 0;
  TimeNs write_latency_ns = 0;
  Bytes flash_page_bytes = 4 * kKiB;
  Bytes erase_block_bytes = 2 * kMiB;
  double over_provisioning = 0.07;  // spare fraction of the capacity, for garbage collection
  double endurance_drive_writes_per_day = 0;
  double endurance_years = 0;
  TimeNs erase_latency_ns = 0;
};

struct Machine {
  std::string name;
  std::string source;  // where the numbers come from
  DeviceTier device;
  Handles handles;
  HostTier host;
  Link link;
  Faults faults;
  StorageTier storage;
};

}  // namespace spillway
