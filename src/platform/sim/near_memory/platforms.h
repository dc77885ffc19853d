// The near-memory paper's platform (tables 1 and 3, figure 5) and parts of today. Layer: platform,
// simulator. Every number that is not the paper's is named here, with its ground.
#pragma once

#include <string>
#include <vector>

#include "platform/sim/near_memory/adam_kernel.h"
#include "platform/sim/near_memory/cpu_adam.h"
#include "platform/sim/near_memory/training.h"

namespace spillway::sim::near_memory {

// What the models of DRAM say of one channel.
struct ChannelRates {
  double kernel_per_s = 0;  // parameters a second, of the kernel beside it
  double core_per_s = 0;    // of a CPU over it
  double copy_bytes_per_s = 0;
};
[[nodiscard]] ChannelRates measure(const DramTiming& kernel_channel, const KernelDesign& design,
                                   const DramTiming& host_channel, const HostCore& core);
// Of the paper's platform.
[[nodiscard]] ChannelRates paper_rates();

// The mean of `seeds` runs, in parameters a second.
[[nodiscard]] double mean_kernel_rate(const DramTiming& timing, const KernelDesign& design,
                                      int seeds);
[[nodiscard]] double mean_core_rate(const DramTiming& timing, const HostCore& core, int seeds);

[[nodiscard]] Platform paper_platform(Updater updater, const ChannelRates& rates);

// The same optimizer on parts of today, everything in memory, channels balanced, a stream for each
// direction: with the update on the CPU, and beside the memory.
struct TodaysParts {
  std::string name;
  Platform cpu;
  Platform near;
};
[[nodiscard]] std::vector<TodaysParts> todays_parts();

}  // namespace spillway::sim::near_memory
