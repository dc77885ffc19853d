// DRAM of the near-memory model on sequences worked out by hand, and the kernel and the core over
// it.
#include <gmock/gmock.h>

#include <algorithm>

#include "base/rng.h"
#include "platform/sim/near_memory/platforms.h"

namespace spillway::sim::near_memory {
namespace {

// Clocks of DDR4-1600: RCD 11, RP 11, RAS 28, CL 11, CWL 9, CCD 4 and 5, WTR 2 and 6.
class NearDram : public ::testing::Test {
 protected:
  static Burst read(std::uint32_t group, std::uint32_t bank, std::uint32_t row) {
    return {0, group, bank, row, false};
  }
  static Burst write(std::uint32_t group, std::uint32_t bank, std::uint32_t row) {
    return {0, group, bank, row, true};
  }

  DramTiming timing_ = axdimm_channel();
  DramChannel channel_{timing_};
};

TEST_F(NearDram, TheStandardsClocks) {
  EXPECT_DOUBLE_EQ(timing_.bytes_per_s(), 12.8e9);
  EXPECT_EQ(timing_.rcd, 11);
  EXPECT_EQ(timing_.ras, 28);
  EXPECT_EQ(timing_.ccd_l, 5);
  EXPECT_EQ(timing_.rrd_l, 5);
  EXPECT_EQ(timing_.faw, 20);
  EXPECT_EQ(timing_.wtr_l, 6);
  EXPECT_EQ(timing_.rfc, 440) << "550 ns";
  EXPECT_EQ(timing_.refi, 6240) << "7.8 us";
  const DramTiming host = host_module();
  EXPECT_DOUBLE_EQ(host.bytes_per_s(), 6.4e9);
  EXPECT_EQ(host.rcd, 6) << "13.75 ns are not quite six clocks";
  EXPECT_EQ(host.ccd_l, 5);
}

TEST_F(NearDram, AClosedRowIsActivatedFirst) {
  EXPECT_EQ(channel_.issue(read(0, 0, 5), 0), 11);
  EXPECT_EQ(channel_.issue(read(0, 0, 5), 0), 16) << "an open row: tCCD_L";
  EXPECT_EQ(channel_.counts().activates, 1);
}

TEST_F(NearDram, ARowMissOfTheSameBankTakesAWholeCycle) {
  EXPECT_EQ(channel_.issue(read(0, 0, 5), 0), 11);
  // Precharge no earlier than tRAS after the activate at 0, then tRP and tRCD.
  EXPECT_EQ(channel_.issue(read(0, 0, 6), 0), 28 + 11 + 11);
  EXPECT_TRUE(channel_.is_open(read(0, 0, 6)));
  EXPECT_FALSE(channel_.is_open(read(0, 0, 5)));
}

TEST_F(NearDram, APrechargeWaitsForTheLastReadAndForWrittenData) {
  channel_.issue(read(0, 0, 5), 0);
  const Clocks late = channel_.issue(read(0, 0, 5), 100);
  EXPECT_EQ(late, 100);
  EXPECT_EQ(channel_.issue(read(0, 0, 6), 0), 100 + timing_.rtp + 11 + 11);
  DramChannel other(timing_);
  other.issue(write(0, 0, 5), 0);
  const Clocks written = other.issue(write(0, 0, 5), 100);
  EXPECT_EQ(other.issue(write(0, 0, 6), 0), written + 9 + 4 + timing_.wr + 11 + 11);
}

TEST_F(NearDram, TwoBankGroupsAlternateAtFullRate) {
  channel_.issue(read(0, 0, 1), 0);
  channel_.issue(read(1, 0, 1), 0);
  channel_.issue(read(0, 0, 1), 40);
  EXPECT_EQ(channel_.issue(read(1, 0, 1), 0), 44);
  EXPECT_EQ(channel_.issue(read(0, 0, 1), 0), 48) << "tCCD_S, four clocks, the length of a burst";
  EXPECT_EQ(channel_.issue(read(0, 0, 1), 0), 53) << "tCCD_L within a group";
}

TEST_F(NearDram, ActivatesKeepTheirDistance) {
  std::vector<Clocks> reads;
  for (std::uint32_t i = 0; i < 5; ++i) {
    reads.push_back(channel_.issue(read(i % 4, i / 4, 1), 0));
  }
  // Activates at 0, 4, 8, 12 (tRRD_S), and no fifth within tFAW, 20.
  EXPECT_THAT(reads, ::testing::ElementsAre(11, 15, 19, 23, 31));
  DramChannel other(timing_);
  other.issue(read(0, 0, 1), 0);
  EXPECT_EQ(other.issue(read(0, 1, 1), 0), 5 + 11) << "tRRD_L";
}

TEST_F(NearDram, TheBusTurns) {
  channel_.issue(read(0, 0, 1), 0);
  channel_.issue(read(1, 0, 1), 0);
  channel_.issue(read(0, 0, 1), 100);
  // CL + 4 + 2 - CWL after the read.
  EXPECT_EQ(channel_.issue(write(0, 0, 1), 0), 100 + 11 + 4 + 2 - 9);
  // CWL + 4 + tWTR_S after the write, tWTR_L in its group.
  DramChannel same = channel_;
  EXPECT_EQ(channel_.issue(read(1, 0, 1), 0), 108 + 9 + 4 + 2);
  EXPECT_EQ(same.issue(read(0, 0, 1), 0), 108 + 9 + 4 + 6);
  EXPECT_EQ(same.counts().turns, 2);
}

TEST_F(NearDram, RefreshClosesAllRowsAndTakesItsTime) {
  channel_.issue(read(0, 0, 1), 0);
  channel_.issue(read(2, 3, 7), 6225);  // read at 6236; the refresh is due at 6240
  const Clocks after = channel_.issue(read(0, 0, 1), 6236);
  // The last row stays open for tRAS, until 6253; then tRP, tRFC and tRCD.
  EXPECT_EQ(after, 6253 + 11 + 440 + 11);
  EXPECT_FALSE(channel_.is_open(read(2, 3, 7)));
  EXPECT_EQ(channel_.counts().refreshes, 1);
}

TEST_F(NearDram, NothingButRefreshKeepsAStreamFromFullRate) {
  // 7.05 % of the time it refreshes; opening rows again costs a little more.
  const double share = copy_bytes_per_s(timing_, false) / timing_.bytes_per_s();
  EXPECT_LT(share, 1 - 440.0 / 6240);
  EXPECT_GT(share, 1 - 520.0 / 6240);
  timing_.refi *= 1000;
  EXPECT_GT(copy_bytes_per_s(timing_, false) / timing_.bytes_per_s(), 0.999);
}

TEST_F(NearDram, AddressesFillTwoRowsOfTwoGroupsWith16KiB) {
  EXPECT_EQ(burst_at(timing_, 0, false).bank_group, 0);
  EXPECT_EQ(burst_at(timing_, 64, false).bank_group, 1);
  for (Bytes address = 0; address < 16 * kKiB; address += 64) {
    const Burst burst = burst_at(timing_, address, false);
    EXPECT_LT(burst.bank_group, 2);
    EXPECT_EQ(burst.bank, 0);
    EXPECT_EQ(burst.row, 0);
  }
  EXPECT_EQ(burst_at(timing_, 16 * kKiB, false).bank_group, 2);
  EXPECT_EQ(burst_at(timing_, 32 * kKiB, false).bank, 1);
  EXPECT_EQ(burst_at(timing_, 128 * kKiB, false).row, 1);
}

// Whatever comes, the rules hold: checked from outside, on the column commands.
TEST_F(NearDram, RandomBurstsKeepTheRules) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    DramTiming timing = seed % 2 == 0 ? axdimm_channel() : host_module();
    DramChannel channel(timing);
    Clocks last = -100;
    Burst previous;
    Clocks known = 0;
    for (int i = 0; i < 3000; ++i) {
      const Burst burst{static_cast<std::uint32_t>(rng.below(timing.ranks)),
                        static_cast<std::uint32_t>(rng.below(timing.bank_groups)),
                        static_cast<std::uint32_t>(rng.below(timing.banks_per_group)),
                        static_cast<std::uint32_t>(rng.below(3)), rng.chance(0.4)};
      known += rng.chance(0.1) ? static_cast<Clocks>(rng.below(200)) : 0;
      const Clocks command = channel.issue(burst, known);
      ASSERT_GE(command, known);
      ASSERT_GE(command, last + timing.ccd_s);
      if (burst.is_write == previous.is_write && burst.rank == previous.rank &&
          burst.bank_group == previous.bank_group) {
        ASSERT_GE(command, last + timing.ccd_l);
      }
      if (!burst.is_write && previous.is_write && burst.rank == previous.rank) {
        ASSERT_GE(command, last + timing.cwl + timing.burst + timing.wtr_s);
      }
      if (i > 0) {  // data of two bursts never overlap
        ASSERT_GE(channel.data_end(burst, command) - timing.burst,
                  channel.data_end(previous, last));
      }
      ASSERT_TRUE(channel.is_open(burst));
      last = command;
      previous = burst;
    }
    EXPECT_EQ(channel.counts().reads + channel.counts().writes, 3000);
    EXPECT_GE(channel.counts().refreshes, static_cast<std::uint64_t>(last / timing.refi));
  }
}

TEST(NearKernel, ReadsSixteenBytesAParameterAndWritesTwelve) {
  Rng rng(7);
  for (int i = 0; i < 20; ++i) {
    KernelDesign design;
    design.block_bytes = kKiB << rng.below(6);
    design.blocks_queued = 1 + static_cast<std::uint32_t>(rng.below(3));
    design.bursts_ahead = 1 + static_cast<std::uint32_t>(rng.below(12));
    design.order = static_cast<PortOrder>(rng.below(3));
    const auto blocks = static_cast<std::uint32_t>(1 + rng.below(60));
    const KernelRun run = run_kernel(axdimm_channel(), design, blocks, rng.next());
    EXPECT_EQ(run.parameters, blocks * design.block_bytes / 4);
    EXPECT_EQ((run.counts.reads - run.reads_for_timing) * 64, 16 * run.parameters);
    EXPECT_EQ(run.counts.writes * 64, 12 * run.parameters);
    EXPECT_LE(run.most_blocks_queued, design.blocks_queued);
    EXPECT_LT(run.parameters_per_s(), 12.8e9 / 28);
  }
}

TEST(NearKernel, DoubleBufferingHidesTheUnits) {
  KernelDesign design;
  const double both = mean_kernel_rate(axdimm_channel(), design, 1);
  design.blocks_queued = 1;
  const double one = mean_kernel_rate(axdimm_channel(), design, 1);
  design.latency_cycles = 1;
  const double without_latency = mean_kernel_rate(axdimm_channel(), design, 1);
  EXPECT_GT(both, 1.05 * one);
  EXPECT_NEAR(without_latency / both, 1, 0.01);
}

TEST(NearKernel, AQueueOfTwoBlocksHasTwoOfThemInTheUnitsAndNoMore) {
  // Units so slow that nothing else counts: a block waits for its results, or two do together.
  constexpr double kLatencyS = 1e-3;
  KernelDesign design;
  design.latency_cycles = 200'000;
  for (const std::uint32_t queued : {1U, 2U}) {
    design.blocks_queued = queued;
    constexpr std::uint32_t kBlocks = 40;
    const KernelRun run = run_kernel(axdimm_channel(), design, kBlocks, 1);
    EXPECT_EQ(run.most_blocks_queued, queued);
    const double latencies = run.seconds / kLatencyS;
    EXPECT_GE(latencies, kBlocks / queued);
    EXPECT_LE(latencies, 1.05 * kBlocks / queued);
  }
}

TEST(NearKernel, SmallBlocksTurnAndActivateMore) {
  double last = 0;
  for (const Bytes kib : {1U, 4U, 16U, 64U}) {
    KernelDesign design;
    design.block_bytes = kib * kKiB;
    const double rate = mean_kernel_rate(axdimm_channel(), design, 2);
    EXPECT_GT(rate, last) << kib;
    last = rate;
  }
}

TEST(NearKernel, WritesForLongerThanAMicrosecondAreInterruptedByReads) {
  KernelDesign design;
  // 48 KiB of writes take 3.8 us: three times two reads a round, or a little more.
  const KernelRun run = run_kernel(axdimm_channel(), design, 100, 1);
  EXPECT_GE(run.reads_for_timing, 100 * 3 * 2);
  EXPECT_LE(run.reads_for_timing, 100 * 4 * 2);
  design.read_every_ns = 1e9;
  EXPECT_EQ(run_kernel(axdimm_channel(), design, 100, 1).reads_for_timing, 0);
}

TEST(NearCore, MovesFortyBytesAParameterWithResultsApartAndTwentyEightInPlace) {
  HostCore core;
  CoreRun run = run_core(host_module(), core, 64'000, 1);
  EXPECT_EQ(run.parameters, 64'000);
  EXPECT_EQ(run.counts.reads * 64, 28 * run.parameters);
  // What has not been written yet is in the queue.
  EXPECT_LE(run.counts.writes * 64, 12 * run.parameters);
  EXPECT_GE((run.counts.writes + core.writes_queued) * 64, 12 * run.parameters);
  core.results = Results::kInPlace;
  run = run_core(host_module(), core, 64'000, 1);
  EXPECT_EQ(run.counts.reads * 64, 16 * run.parameters);
  EXPECT_GE((run.counts.writes + core.writes_queued) * 64, 12 * run.parameters);
}

TEST(NearCore, LatencyBoundsFewLinesInFlight) {
  HostCore core;
  core.lines_in_flight = 1;
  core.results = Results::kInPlace;
  // A line at a time: at least CL, a burst and the rest for each.
  const DramTiming timing = host_module();
  const double line_s =
      (static_cast<double>(timing.cl + timing.burst) * timing.clock_ns + core.uncore_ns) * 1e-9;
  EXPECT_LT(mean_core_rate(timing, core, 1), 16 / (4 * line_s));
}

}  // namespace
}  // namespace spillway::sim::near_memory
