// The parts. See dram_timing.h.
#include "platform/sim/near_memory/dram_timing.h"

#include <algorithm>
#include <cmath>

namespace spillway::sim::near_memory {
namespace {

// JEDEC gives most times as the larger of a number of clocks and of a time.
Clocks clocks(double clock_ns, double time_ns, Clocks least = 1) {
  constexpr double kRounding = 1e-6;
  return std::max(least, static_cast<Clocks>(std::ceil(time_ns / clock_ns - kRounding)));
}

// DDR4 chips of 8 data bits or fewer, pages of 1 KiB or less, at one of its rates.
DramTiming ddr4(double megatransfers_per_s, double refresh_ns) {
  DramTiming timing;
  const double clock_ns = 2e3 / megatransfers_per_s;
  timing.clock_ns = clock_ns;
  timing.rcd = clocks(clock_ns, 13.75);  // JEDEC, grade 1600K: 11-11-11
  timing.rp = clocks(clock_ns, 13.75);
  timing.ras = clocks(clock_ns, 35);
  timing.ccd_s = 4;
  timing.ccd_l = clocks(clock_ns, 6.25, 5);
  timing.rrd_s = clocks(clock_ns, 5, 4);
  timing.rrd_l = clocks(clock_ns, 6, 4);
  timing.faw = clocks(clock_ns, 25, 20);
  timing.wtr_s = clocks(clock_ns, 2.5, 2);
  timing.wtr_l = clocks(clock_ns, 7.5, 4);
  timing.rtp = clocks(clock_ns, 7.5, 4);
  timing.wr = clocks(clock_ns, 15);
  timing.turn = 2;  // JEDEC: read to write is CL + 4 + 2 - CWL
  timing.rfc = clocks(clock_ns, refresh_ns);
  timing.refi = clocks(clock_ns, 7800);
  return timing;
}

}  // namespace

DramTiming axdimm_channel() {
  // Table 1 names chips of 32 Gb: two dies of 16 Gb, of 8 data bits each (chosen: so they are
  // sold), hence 4 bank groups and 550 ns of refresh (JEDEC, 16 Gb). 8 KiB rows: section 3.4 has
  // two rows in 16 KiB.
  DramTiming timing = ddr4(1600, 550);  // paper section 3.1: 800 MHz
  timing.cl = 11;                       // JEDEC, 1600K
  timing.cwl = 9;
  return timing;
}

DramTiming host_module() {
  // Table 3: 32 GB at 800 MT/s. Chosen: two ranks of 8 Gb chips, as modules of that size have (the
  // AXDIMM shows itself as dual-rank, too). JEDEC's slowest mode registers: CL 10, CWL 9.
  DramTiming timing = ddr4(800, 350);
  timing.ranks = 2;
  timing.cl = 10;
  timing.cwl = 9;
  return timing;
}

DramTiming ddr5_channel() {
  // JEDEC, DDR5-4800B, 16 Gb chips. Two subchannels of 32 bits with bursts of 16 carry as much as
  // one of 64 bits with bursts of 8, which this is; it has twice the banks and 8 bank groups.
  constexpr double kClockNs = 2e3 / 4800;
  DramTiming timing;
  timing.clock_ns = kClockNs;
  timing.bank_groups = 8;
  timing.cl = 40;
  timing.cwl = 38;
  timing.rcd = 39;
  timing.rp = 39;
  timing.ras = clocks(kClockNs, 32);
  timing.ccd_s = 4;
  timing.ccd_l = clocks(kClockNs, 5, 8) / 2;  // in each subchannel, of which two alternate
  timing.rrd_s = 4;
  timing.rrd_l = clocks(kClockNs, 5, 8);
  timing.faw = clocks(kClockNs, 13.333, 32) / 2;
  timing.wtr_s = clocks(kClockNs, 2.5, 4);
  timing.wtr_l = clocks(kClockNs, 10, 16);
  timing.rtp = clocks(kClockNs, 7.5, 12);
  timing.wr = clocks(kClockNs, 30);
  timing.turn = 2;
  timing.rfc = clocks(kClockNs, 295);
  timing.refi = clocks(kClockNs, 3900);
  return timing;
}

}  // namespace spillway::sim::near_memory
