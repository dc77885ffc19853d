// What a DDR channel is made of and how long its commands take. Layer: platform, simulator.
// Each number is from the near-memory paper ("paper"), from the standard for DDR4, JESD79-4
// ("JEDEC"), or "chosen" with the reason; docs/near-memory.md has them all.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace spillway::sim::near_memory {

// Clock cycles of a channel's command clock, half its transfer rate.
using Clocks = std::int64_t;

struct DramTiming {
  double clock_ns = 0;
  // Geometry of the channel, 64 data bits wide: a burst is 8 transfers, 64 bytes.
  std::uint32_t ranks = 1;
  std::uint32_t bank_groups = 4;  // of a rank
  std::uint32_t banks_per_group = 4;
  Bytes row_bytes = 8 * kKiB;  // of one bank, over all chips of a rank
  // Between commands, in clocks.
  Clocks burst = 4;  // of data
  Clocks cl = 0;     // read to its data
  Clocks cwl = 0;    // write to its data
  Clocks rcd = 0;    // activate to read or write
  Clocks rp = 0;     // precharge to activate
  Clocks ras = 0;    // activate to precharge
  Clocks ccd_s = 0;  // read to read, write to write
  Clocks ccd_l = 0;  // the same within a group
  Clocks rrd_s = 0;  // activate to activate
  Clocks rrd_l = 0;  // the same within a group
  Clocks faw = 0;    // four activates at most in this time
  Clocks wtr_s = 0;  // end of a write's data to a read
  Clocks wtr_l = 0;  // the same within a group
  Clocks rtp = 0;    // read to precharge
  Clocks wr = 0;     // end of a write's data to precharge
  Clocks turn = 0;   // gap on the data bus when its driver changes
  Clocks rfc = 0;    // refresh
  Clocks refi = 0;   // refresh to refresh

  [[nodiscard]] double bytes_per_s() const {
    return static_cast<double>(kBurstBytes) / (static_cast<double>(burst) * clock_ns * 1e-9);
  }
  [[nodiscard]] std::uint32_t banks() const { return ranks * bank_groups * banks_per_group; }

  static constexpr Bytes kBurstBytes = 64;
};

// One of the AXDIMM's two internal channels: DDR4-1600, 12.8 GB/s.
[[nodiscard]] DramTiming axdimm_channel();
// The host's module, and the AXDIMM as the host sees it: DDR4-800, 6.4 GB/s.
[[nodiscard]] DramTiming host_module();
// A channel of today: DDR5-4800, its two halves of 32 bits taken as one of 64.
[[nodiscard]] DramTiming ddr5_channel();

}  // namespace spillway::sim::near_memory
