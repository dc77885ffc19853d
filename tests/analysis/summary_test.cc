// The summary of a residual block worked out by hand.
#include "analysis/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/example_traces.h"

namespace spillway {
namespace {

using test::kernel;
using test::ResidualBlock;
using ::testing::ElementsAre;

TraceSummary summary_of(const Trace& trace, double bandwidth_bytes_per_s) {
  const Vitality vitality = analyze_vitality(trace);
  return summarize(trace, vitality, memory_curve(trace, vitality), bandwidth_bytes_per_s);
}

TEST(Summary, TensorsByKind) {
  const TraceSummary s = summary_of(ResidualBlock::trace(), 1e9);
  EXPECT_EQ(s.iteration_ns, 114);
  EXPECT_EQ(s.persistent.count, 3U);
  EXPECT_EQ(s.persistent.bytes, 370U);
  EXPECT_EQ(s.intermediate.count, 10U);
  EXPECT_EQ(s.intermediate.bytes, 9500U);
  EXPECT_EQ(s.scratch.count, 1U);
  EXPECT_EQ(s.scratch.bytes, 5000U);
  EXPECT_EQ(s.unused.count, 1U);
  EXPECT_EQ(s.unused.bytes, 70U);
}

TEST(Summary, ActiveShareOfThePeak) {
  const TraceSummary s = summary_of(ResidualBlock::trace(), 1e9);
  EXPECT_DOUBLE_EQ(s.active.max, 8800.0 / 11270);
  EXPECT_DOUBLE_EQ(s.active.mean, 27300.0 / 9 / 11270);
  // 10*2200 + 20*2500 + 5*3500 + 8*2600 + 5*2500 + 40*8800 + 20*4600 + 3*200 + 3*400
  EXPECT_DOUBLE_EQ(s.active.time_mean, 568600.0 / 114 / 11270);
  EXPECT_DOUBLE_EQ(s.active.kernels_below_tenth, 2.0 / 9) << "the weight updates";
}

// The ten periods last 3, 10, 18, 18, 20, 23, 23, 40, 53 and 78 ns.
TEST(Summary, PeriodLengths) {
  const PeriodSummary p = summary_of(ResidualBlock::trace(), 1e9).periods;
  EXPECT_EQ(p.count, 10U);
  EXPECT_EQ(p.wrapping, 2U);
  EXPECT_EQ(p.shortest_ns, 3);
  EXPECT_EQ(p.longest_ns, 78);
  EXPECT_THAT(p.percentile_ns, ElementsAre(3, 18, 20, 40, 53, 78, 78));
  EXPECT_EQ(p.bytes, 2 * 100U + 3 * 200 + 2 * 1000 + 1100 + 1300 + 200);
}

// At 20 GB/s a byte takes 0.1 ns out and back: W1 needs 10 ns (78 yes, 3 no), W2 20 (18 no, 23 yes,
// 10 no), A0 100 (no), A1 110 (no), dA3 130 (no), dW2 20 (23 yes).
TEST(Summary, PeriodsThatHideARoundTrip) {
  const PeriodSummary p = summary_of(ResidualBlock::trace(), 20e9).periods;
  EXPECT_EQ(p.hideable, 3U);
  EXPECT_EQ(p.hideable_bytes, 100U + 200 + 200);
}

TEST(Summary, DecadesCountLongerPeriodsOnly) {
  Trace t;
  t.tensors = {{1, false, false}, {1, false, false}};
  t.kernels = {kernel("a", 1, {0, 1}, {}), kernel("b", kNsPerMs, {}, {}), kernel("c", 1, {0}, {}),
               kernel("d", 1, {1}, {})};
  const PeriodSummary p = summary_of(t, 1e9).periods;  // 1 ms and 1 ms + 1 ns
  EXPECT_THAT(p.longer_than, ElementsAre(2, 2, 1, 0, 0, 0, 0, 0));
}

TEST(Summary, EmptyTraceIsAllZero) {
  const TraceSummary s = summary_of(Trace{}, 1e9);
  EXPECT_EQ(s.iteration_ns, 0);
  EXPECT_EQ(s.active.mean, 0);
  EXPECT_EQ(s.periods.count, 0U);
  EXPECT_EQ(s.periods.percentile_ns[0], 0);
}

TEST(Summary, RoundTripGoesBothWays) {
  EXPECT_EQ(round_trip_ns(1000, 1e9), 2000);
  EXPECT_EQ(round_trip_ns(1, 3e9), 1) << "rounded up";
}

}  // namespace
}  // namespace spillway
