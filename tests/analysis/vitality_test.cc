// Vitality against a residual block worked out by hand, and against a plain search over time.
#include "analysis/vitality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "analysis/example_traces.h"

namespace spillway {
namespace {

using test::kernel;
using test::ResidualBlock;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using PeriodTuple = std::tuple<TensorId, KernelIndex, KernelIndex, bool, TimeNs, TimeNs>;

std::vector<PeriodTuple> tuples(const Vitality& vitality) {
  std::vector<PeriodTuple> all;
  all.reserve(vitality.periods.size());
  for (const InactivePeriod& p : vitality.periods) {
    all.emplace_back(p.tensor, p.after, p.until, p.wraps, p.start_ns, p.end_ns);
  }
  return all;
}

TEST(Vitality, KernelStartsAreRunningSumsEndingWithTheIteration) {
  const Vitality v = analyze_vitality(ResidualBlock::trace());
  EXPECT_THAT(v.kernel_start_ns, ElementsAre(0, 10, 30, 35, 43, 48, 88, 108, 111, 114));
}

TEST(Vitality, FirstAndLastUseOfEachTensor) {
  const Vitality v = analyze_vitality(ResidualBlock::trace());
  const auto life = [&](TensorId id) {
    return std::pair{v.lives[id]->first_use, v.lives[id]->last_use};
  };
  EXPECT_EQ(life(ResidualBlock::W1), std::pair(0U, 7U));
  EXPECT_EQ(life(ResidualBlock::W2), std::pair(1U, 8U));
  EXPECT_EQ(life(ResidualBlock::A0), std::pair(0U, 6U));
  EXPECT_EQ(life(ResidualBlock::A2), std::pair(1U, 2U));
  EXPECT_EQ(life(ResidualBlock::dA3), std::pair(3U, 6U));
  EXPECT_EQ(life(ResidualBlock::kWork), std::pair(5U, 5U));
  EXPECT_FALSE(v.lives[ResidualBlock::kUnused].has_value());
}

TEST(Vitality, EveryInactivePeriodOfTheResidualBlock) {
  using R = ResidualBlock;
  EXPECT_THAT(
      tuples(analyze_vitality(R::trace())),
      ElementsAre(PeriodTuple(R::W1, 0, 6, false, 10, 88), PeriodTuple(R::W1, 7, 0, true, 111, 114),
                  PeriodTuple(R::W2, 1, 5, false, 30, 48), PeriodTuple(R::W2, 5, 8, false, 88, 111),
                  PeriodTuple(R::W2, 8, 1, true, 114, 124), PeriodTuple(R::A0, 0, 2, false, 10, 30),
                  PeriodTuple(R::A0, 2, 6, false, 35, 88), PeriodTuple(R::A1, 1, 5, false, 30, 48),
                  PeriodTuple(R::dA3, 4, 6, false, 48, 88),
                  PeriodTuple(R::dW2, 5, 8, false, 88, 111)));
}

TEST(Vitality, PersistentTensorUsedOnceHasOneWrappingPeriod) {
  Trace t;
  t.tensors = {{64, true, false}, {64, false, false}};
  t.kernels = {kernel("a", 5, {1}, {}), kernel("b", 7, {0, 1}, {}), kernel("c", 11, {1}, {})};
  EXPECT_THAT(tuples(analyze_vitality(t)), ElementsAre(PeriodTuple(0, 1, 1, true, 12, 28)));
}

TEST(Vitality, PersistentTensorOfFirstAndLastKernelDoesNotRestBetweenIterations) {
  Trace t;
  t.tensors = {{64, true, false}};
  t.kernels = {kernel("a", 5, {0}, {}), kernel("b", 7, {}, {}), kernel("c", 11, {}, {0})};
  EXPECT_THAT(tuples(analyze_vitality(t)), ElementsAre(PeriodTuple(0, 0, 2, false, 5, 12)));
}

TEST(Vitality, ReadAndWrittenByOneKernelIsOneUse) {
  Trace t;
  t.tensors = {{64, false, false}};
  t.kernels = {kernel("a", 5, {0}, {0}), kernel("b", 7, {}, {}), kernel("c", 1, {0}, {0})};
  EXPECT_THAT(tuples(analyze_vitality(t)), ElementsAre(PeriodTuple(0, 0, 2, false, 5, 12)));
}

TEST(Vitality, EmptyTrace) {
  const Vitality v = analyze_vitality(Trace{});
  EXPECT_THAT(v.periods, IsEmpty());
  EXPECT_THAT(v.kernel_start_ns, ElementsAre(0));
}

// A tensor is inactive during kernel k exactly if it is alive there and k does not use it. Over two
// iterations that covers wrapping periods too.
TEST(Vitality, PeriodsCoverExactlyTheKernelsInWhichALivingTensorIsUnused) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Trace t = test::random_trace(seed);
    const Vitality v = analyze_vitality(t);
    const std::size_t kernels = t.kernels.size();
    std::vector<std::vector<int>> covered(t.tensors.size(), std::vector<int>(2 * kernels, 0));
    for (const InactivePeriod& p : v.periods) {
      ASSERT_GT(p.length_ns(), 0);
      TimeNs length_ns = 0;
      const std::size_t end = p.until + (p.wraps ? kernels : 0);
      for (std::size_t k = p.after + 1; k < end; ++k) {
        ++covered[p.tensor][k];
        length_ns += t.kernels[k % kernels].duration_ns;
      }
      ASSERT_EQ(length_ns, p.length_ns());
    }
    for (TensorId id = 0; id < t.tensors.size(); ++id) {
      std::vector<std::size_t> used;
      for (std::size_t k = 0; k < 2 * kernels; ++k) {
        if (test::uses(t.kernels[k % kernels], id)) used.push_back(k);
      }
      for (std::size_t k = 0; k < kernels; ++k) {
        const bool is_used = std::find(used.begin(), used.end(), k) != used.end();
        const bool between = !used.empty() && used.front() < k && k < used[used.size() / 2 - 1];
        const bool inactive = !used.empty() && !is_used && (t.tensors[id].persistent || between);
        ASSERT_EQ(covered[id][k] + covered[id][k + kernels], inactive ? 1 : 0)
            << "tensor " << id << " kernel " << k;
      }
    }
  }
}

TEST(Vitality, PeriodsAreSortedByTensorThenTime) {
  const Vitality v = analyze_vitality(test::random_trace(7));
  ASSERT_FALSE(v.periods.empty());
  EXPECT_TRUE(std::is_sorted(v.periods.begin(), v.periods.end(), [](const auto& a, const auto& b) {
    return std::pair(a.tensor, a.start_ns) < std::pair(b.tensor, b.start_ns);
  }));
}

}  // namespace
}  // namespace spillway
