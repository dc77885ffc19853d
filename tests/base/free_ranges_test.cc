// Runs of free numbers against a model that looks at every number.
#include "base/free_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace spillway {
namespace {

using Number = FreeRanges::Number;

TEST(FreeRanges, TakesTheShortestRunThatIsLongEnough) {
  FreeRanges ranges;
  ranges.give(0, 8);
  ranges.give(10, 3);
  ranges.give(20, 5);
  ranges.give(30, 5);
  EXPECT_EQ(ranges.take(4), 20U);  // of two runs as long the first
  EXPECT_EQ(ranges.take(4), 30U);
  EXPECT_EQ(ranges.take(1), 24U);  // what was left of one
  EXPECT_EQ(ranges.take(3), 10U);
  EXPECT_EQ(ranges.take(9), std::nullopt);
  EXPECT_EQ(ranges.take(8), 0U);
  EXPECT_EQ(ranges.take(1), 34U);
  EXPECT_EQ(ranges.take(1), std::nullopt);
}

TEST(FreeRanges, RunsThatTouchBecomeOne) {
  FreeRanges ranges;
  EXPECT_EQ(ranges.give(0, 2), std::make_pair(Number{0}, Number{2}));
  EXPECT_EQ(ranges.give(4, 2), std::make_pair(Number{4}, Number{2}));
  EXPECT_EQ(ranges.give(6, 1), std::make_pair(Number{4}, Number{3}));  // behind one
  EXPECT_EQ(ranges.give(3, 1), std::make_pair(Number{3}, Number{4}));  // before one
  EXPECT_EQ(ranges.give(2, 1), std::make_pair(Number{0}, Number{7}));  // between two
  ranges.remove(0, 7);
  EXPECT_EQ(ranges.take(1), std::nullopt);
}

// The first of the shortest runs of true that are long enough.
std::optional<Number> best_fit(const std::vector<bool>& free, Number count) {
  std::optional<Number> best;
  Number best_length = free.size() + 1;
  for (Number first = 0; first < free.size();) {
    Number end = first;
    while (end < free.size() && free[end]) {
      ++end;
    }
    if (end - first >= count && end - first < best_length) {
      best = first;
      best_length = end - first;
    }
    first = end + 1;
  }
  return best;
}

TEST(FreeRanges, DoAsAModelDoes) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    FreeRanges ranges;
    std::vector<bool> free(200, true);
    std::vector<std::pair<Number, Number>> taken;
    ranges.give(0, free.size());
    for (int step = 0; step < 3000; ++step) {
      if (!taken.empty() && rng.chance(0.5)) {
        const auto at = rng.below(taken.size());
        const auto [first, count] = taken[at];
        taken[at] = taken.back();
        taken.pop_back();
        std::fill_n(free.begin() + static_cast<std::ptrdiff_t>(first), count, true);
        Number begin = first;
        while (begin > 0 && free[begin - 1]) {
          --begin;
        }
        Number end = first;
        while (end < free.size() && free[end]) {
          ++end;
        }
        ASSERT_EQ(ranges.give(first, count), std::make_pair(begin, end - begin)) << "seed " << seed;
        continue;
      }
      const Number count = 1 + rng.below(rng.chance(0.2) ? 60 : 6);
      const std::optional<Number> expected = best_fit(free, count);
      ASSERT_EQ(ranges.take(count), expected) << "seed " << seed << ", step " << step;
      if (expected) {
        std::fill_n(free.begin() + static_cast<std::ptrdiff_t>(*expected), count, false);
        taken.emplace_back(*expected, count);
      }
    }
  }
}

}  // namespace
}  // namespace spillway
