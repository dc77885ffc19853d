// Sums by slot against adding them up.
#include "policy/planning/room_sums.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace spillway {
namespace {

TEST(RoomSums, ReachWhatIsWantedInEitherOrder) {
  RoomSums sums({3, 0, 4, 1, 0});
  EXPECT_EQ(sums.rising(0, 3).slot, 0U);
  EXPECT_EQ(sums.rising(0, 3).lacking, 3);
  EXPECT_EQ(sums.rising(0, 3.5).slot, 2U);
  EXPECT_EQ(sums.rising(0, 3.5).lacking, 0.5);
  EXPECT_EQ(sums.rising(1, 5).slot, 3U);
  EXPECT_EQ(sums.rising(1, 6).slot, 5U);
  EXPECT_EQ(sums.rising(1, 6).lacking, 1);
  EXPECT_EQ(sums.rising(5, 1).slot, 5U);
  EXPECT_EQ(sums.falling(5, 1).slot, 3U);
  EXPECT_EQ(sums.falling(5, 2).slot, 2U);
  EXPECT_EQ(sums.falling(3, 5).slot, 0U);
  EXPECT_EQ(sums.falling(3, 8).slot, 5U);
  EXPECT_EQ(sums.falling(0, 1).slot, 5U);
  sums.set(1, 2);
  EXPECT_EQ(sums.rising(0, 5).slot, 1U);
  EXPECT_EQ(sums.falling(3, 5).slot, 1U);
}

// Whole numbers: nothing is rounded.
TEST(RoomSums, AgreeWithAddingUp) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const std::size_t slots = 1 + rng.below(40);
    std::vector<double> amounts(slots);
    for (double& amount : amounts) amount = rng.chance(0.4) ? 0 : 1.0 + double(rng.below(9));
    RoomSums sums(amounts);
    for (int step = 0; step < 200; ++step) {
      const std::size_t at = rng.below(slots + 1);
      const double wanted = 0.5 + double(rng.below(80));
      std::size_t slot = at;
      double lacking = wanted;
      while (slot < slots && lacking > amounts[slot]) lacking -= amounts[slot++];
      ASSERT_EQ(sums.rising(at, wanted).slot, slot);
      ASSERT_EQ(sums.rising(at, wanted).lacking, lacking);
      slot = at;
      lacking = wanted;
      while (slot > 0 && lacking > amounts[slot - 1]) lacking -= amounts[--slot];
      ASSERT_EQ(sums.falling(at, wanted).slot, slot == 0 ? slots : slot - 1);
      ASSERT_EQ(sums.falling(at, wanted).lacking, lacking);
      const std::size_t changed = rng.below(slots);
      amounts[changed] = double(rng.below(6));
      sums.set(changed, amounts[changed]);
    }
  }
}

}  // namespace
}  // namespace spillway
