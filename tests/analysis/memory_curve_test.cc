// The memory curve of a residual block worked out by hand, and of random traces by plain counting.
#include "analysis/memory_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/example_traces.h"
#include "analysis/sweep.h"

namespace spillway {
namespace {

using test::ResidualBlock;
using ::testing::ElementsAre;

std::vector<Bytes> active(const MemoryCurve& curve) {
  std::vector<Bytes> all;
  all.reserve(curve.kernels.size());
  for (const KernelMemory& at : curve.kernels) all.push_back(at.active_bytes);
  return all;
}

std::vector<Bytes> live(const MemoryCurve& curve) {
  std::vector<Bytes> all;
  all.reserve(curve.kernels.size());
  for (const KernelMemory& at : curve.kernels) all.push_back(at.live_bytes);
  return all;
}

TEST(MemoryCurve, ResidualBlockByHand) {
  const Trace t = ResidualBlock::trace();
  const MemoryCurve curve = memory_curve(t, analyze_vitality(t));
  EXPECT_THAT(active(curve), ElementsAre(2200, 2500, 3500, 2600, 2500, 8800, 4600, 200, 400));
  EXPECT_THAT(live(curve), ElementsAre(2470, 3670, 4970, 5070, 4970, 11270, 5070, 670, 570));
  EXPECT_EQ(curve.peak_live_bytes, 11270U);
  EXPECT_EQ(curve.peak_kernel, 5U);
  EXPECT_EQ(curve.largest_working_set_bytes, 8800U);
  EXPECT_EQ(curve.largest_working_set_kernel, 5U);
}

TEST(MemoryCurve, RoundsEachTensorToTheGranularity) {
  Trace t;
  t.tensors = {{1, true, false}, {4096, false, false}, {4097, false, false}};
  t.kernels = {test::kernel("a", 1, {0, 1}, {}), test::kernel("b", 1, {2}, {})};
  const MemoryCurve curve = memory_curve(t, analyze_vitality(t), kPageBytes);
  EXPECT_THAT(active(curve), ElementsAre(8192, 8192));
  EXPECT_THAT(live(curve), ElementsAre(8192, 12288));
  EXPECT_EQ(curve.largest_working_set_kernel, 0U) << "the first of equals";
  EXPECT_EQ(curve.peak_kernel, 1U);
}

TEST(MemoryCurve, EmptyTrace) {
  const MemoryCurve curve = memory_curve(Trace{}, analyze_vitality(Trace{}));
  EXPECT_TRUE(curve.kernels.empty());
  EXPECT_EQ(curve.peak_live_bytes, 0U);
}

// Whatever is alive is used by the running kernel or lies in one of its inactive periods.
TEST(MemoryCurve, LiveIsActivePlusIdlePlusUnused) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Trace t = test::random_trace(seed);
    const Vitality v = analyze_vitality(t);
    const MemoryCurve curve = memory_curve(t, v);
    Bytes unused = 0;
    for (TensorId id = 0; id < t.tensors.size(); ++id) {
      if (t.tensors[id].persistent && !v.lives[id]) unused += t.tensors[id].bytes;
    }
    for (std::size_t k = 0; k < t.kernels.size(); ++k) {
      Bytes used = 0;
      for (TensorId id = 0; id < t.tensors.size(); ++id) {
        if (test::uses(t.kernels[k], id)) used += t.tensors[id].bytes;
      }
      Bytes idle = 0;
      for (const InactivePeriod& p : v.periods) {
        const bool covers = p.wraps ? k > p.after || k < p.until : k > p.after && k < p.until;
        if (covers) idle += t.tensors[p.tensor].bytes;
      }
      ASSERT_EQ(curve.kernels[k].active_bytes, used) << k;
      ASSERT_EQ(curve.kernels[k].live_bytes, used + idle + unused) << k;
    }
  }
}

TEST(Sweep, AddsRangesAndIgnoresEmptyOnes) {
  Sweep sweep(4);
  sweep.add(0, 4, 1);
  sweep.add(1, 3, 10);
  sweep.add(2, 2, 100);
  EXPECT_THAT(sweep.totals(), ElementsAre(1, 11, 11, 1));
}

}  // namespace
}  // namespace spillway
