// How far ahead frames are made ready for results, against made-up programs: it grows where they
// are used, and shrinks where they are not, are gone by then, or cost what is needed.
#include "policy/habits/result_reach.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace spillway {
namespace {

// A program of which each launch writes one block, as far as the prediction is right.
class ResultReachTest : public ::testing::Test {
 protected:
  struct Behaviour {
    bool used = true;                // what is expected is written
    bool there = true;               // ... and has its frame then
    bool victim_comes_back = false;  // ... but what left for it is wanted before
  };
  void run(std::uint64_t launches, const Behaviour& behaviour) {
    for (std::uint64_t i = 0; i < launches; ++i) {
      reach_.launched();
      ++launch_;
      const auto block = static_cast<BlockId>(launch_);
      if (behaviour.used) {
        reach_.used(block, behaviour.there);
      }
      // All that come into sight.
      const std::uint64_t sight = launch_ + reach_.looks_ahead();
      looked_at_ = std::max(looked_at_, launch_);
      while (looked_at_ < sight) {
        const auto ahead = static_cast<BlockId>(++looked_at_);
        if (reach_.expect(ahead, static_cast<std::uint32_t>(looked_at_ - launch_))) {
          ++frames_;
          constexpr BlockId kVictims = 1'000'000;
          reach_.leaves_for(kVictims + ahead, ahead);
          if (behaviour.victim_comes_back) {
            reach_.wanted(kVictims + ahead);
          }
        }
      }
    }
  }

  static constexpr std::uint64_t kLong = 1000;
  ResultReach reach_{64};
  std::uint64_t launch_ = 0;
  std::uint64_t looked_at_ = 0;
  std::uint64_t frames_ = 0;
};

TEST_F(ResultReachTest, BeginsWithoutFrames) {
  EXPECT_EQ(reach_.reach(), 0U);
  EXPECT_GT(reach_.looks_ahead(), 0U);
  run(16, {});
  EXPECT_EQ(frames_, 0U);
}

TEST_F(ResultReachTest, GrowsWhereWhatIsExpectedIsWritten) {
  run(kLong, {});
  EXPECT_EQ(reach_.reach(), ResultReach::kMost);
  EXPECT_GT(frames_, kLong / 2);
}

TEST_F(ResultReachTest, StaysWithinASmallerDegree) {
  reach_ = ResultReach(2);
  run(kLong, {});
  EXPECT_EQ(reach_.reach(), 2U);
  reach_ = ResultReach(0);
  run(kLong, {});
  EXPECT_EQ(reach_.reach(), 0U);
}

TEST_F(ResultReachTest, WhereOtherMemoryIsWrittenNoFrameIsEverAskedFor) {
  run(kLong, {.used = false});
  EXPECT_EQ(reach_.reach(), 0U);
  EXPECT_EQ(frames_, 0U);
}

TEST_F(ResultReachTest, ShrinksWhenFramesGoUnused) {
  run(kLong, {});
  ASSERT_EQ(reach_.reach(), ResultReach::kMost);
  run(100, {.used = false});
  EXPECT_EQ(reach_.reach(), 0U);
}

TEST_F(ResultReachTest, ShrinksWhenFramesAreGoneBeforeTheyAreUsed) {
  run(kLong, {});
  run(100, {.there = false});
  EXPECT_EQ(reach_.reach(), 0U);
}

TEST_F(ResultReachTest, ShrinksWhenWhatLeftIsWantedBack) {
  run(kLong, {});
  run(100, {.victim_comes_back = true});
  EXPECT_EQ(reach_.reach(), 0U);
}

// What comes back behind the use has had its turn.
TEST_F(ResultReachTest, AVictimThatComesBackLaterIsNoHarm) {
  run(kLong, {});
  for (BlockId block = 1; block <= static_cast<BlockId>(launch_); ++block) {
    reach_.wanted(1'000'000 + block);
  }
  EXPECT_EQ(reach_.reach(), ResultReach::kMost);
}

TEST_F(ResultReachTest, IsTriedAgainAndLessOftenEachTime) {
  run(kLong, {.there = false});
  const std::uint64_t first = frames_;
  EXPECT_GT(first, 0U);
  for (int i = 0; i < 8; ++i) {
    run(kLong, {.there = false});
  }
  frames_ = 0;
  run(kLong, {.there = false});
  EXPECT_LT(frames_, first / 2);
  // Not for good.
  run(10 * kLong, {});
  EXPECT_EQ(reach_.reach(), ResultReach::kMost);
}

TEST_F(ResultReachTest, AFewThatAreLostAreNobodysBusiness) {
  for (int i = 0; i < 100; ++i) {
    run(31, {});
    run(1, {.used = false});
  }
  EXPECT_EQ(reach_.reach(), ResultReach::kMost);
}

}  // namespace
}  // namespace spillway
