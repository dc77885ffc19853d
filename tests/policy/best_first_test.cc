// The best of many values against a search through all.
#include "policy/best_first.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/rng.h"

namespace spillway {
namespace {

TEST(BestFirst, IsTheFirstOfTheHighestValues) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const std::size_t count = 1 + rng.below(33);
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    std::vector<double> values(count, kNone);
    BestFirst candidates(count);
    ASSERT_TRUE(candidates.empty());
    for (int step = 0; step < 300; ++step) {
      const std::size_t number = rng.below(count);
      if (rng.chance(0.3)) {
        values[number] = kNone;
        candidates.clear(number);
      } else {
        values[number] = double(rng.below(8));
        candidates.set(number, values[number]);
      }
      std::size_t best = 0;
      for (std::size_t i = 1; i < count; ++i) {
        if (values[i] > values[best]) best = i;
      }
      ASSERT_EQ(candidates.empty(), values[best] == kNone);
      if (!candidates.empty()) {
        ASSERT_EQ(candidates.best(), best);
        ASSERT_EQ(candidates.best_value(), values[best]);
      }
    }
  }
}

}  // namespace
}  // namespace spillway
