// Which uses of a block count as the same.
#include "policy/prediction/use_habit.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr std::uint64_t kCode = 7;
constexpr std::uint64_t kOtherCode = 8;

using Place = std::optional<std::size_t>;

Launch launch(LaunchSeq seq, ExecutionId execution, std::uint64_t kind) {
  Launch launch;
  launch.seq = seq;
  launch.execution = execution;
  launch.kind = kind;
  return launch;
}

class UseHabitTest : public ::testing::Test {
 protected:
  void use(ExecutionId execution, std::uint64_t kind) {
    habit.used(launch(++launches, execution, kind));
  }
  // Of a use behind which nothing is said to come.
  Place place_of(ExecutionId execution, std::uint64_t kind) {
    use(execution, kind);
    return habit.place();
  }
  // Something comes behind it.
  Place came(ExecutionId execution, std::uint64_t kind) {
    use(execution, kind);
    return habit.came();
  }
  void in_vain(ExecutionId execution, std::uint64_t kind) {
    use(execution, kind);
    habit.in_vain();
  }

  UseHabit habit;
  LaunchSeq launches = 0;
};

TEST_F(UseHabitTest, ThePlaceOfAUseIsThatOfTheSameExecution) {
  EXPECT_EQ(habit.place(), std::nullopt);
  EXPECT_EQ(habit.came(), std::nullopt);
  EXPECT_EQ(place_of(1, kCode), std::nullopt);
  const Place first = came(1, kCode);
  const Place second = came(2, kOtherCode);
  EXPECT_NE(first, second);
  EXPECT_EQ(place_of(1, kCode), first);
  EXPECT_EQ(place_of(2, kOtherCode), second);
  EXPECT_EQ(came(1, kCode), first);
  EXPECT_EQ(came(3, 9), first);  // the oldest makes way
  EXPECT_EQ(place_of(1, kCode), std::nullopt);
  EXPECT_EQ(place_of(2, kOtherCode), second);
}

TEST_F(UseHabitTest, AnotherExecutionOfTheSameCodeIsLikeIt) {
  const Place place = came(1, kCode);
  ASSERT_TRUE(place);
  EXPECT_EQ(place_of(2, kCode), place);
  EXPECT_EQ(place_of(0, kCode), place);
  EXPECT_EQ(place_of(3, kOtherCode), std::nullopt);
}

TEST_F(UseHabitTest, ALaunchThatNamesTheBlockTwiceUsesItOnce) {
  const Place place = came(1, kCode);
  use(2, kCode);
  habit.used(launch(launches, 2, kCode));
  EXPECT_EQ(habit.place(), place);
  EXPECT_EQ(habit.last_use(), launches);
}

// Something may come behind both.
TEST_F(UseHabitTest, TwoUsesOfOneCodeHaveAPlaceEach) {
  const Place first = came(1, kCode);
  const Place second = came(2, kCode);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first, second);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(came(1, kCode), first);
    EXPECT_EQ(came(2, kCode), second);
  }
}

TEST_F(UseHabitTest, WhereThereIsNoOtherPlaceItIsThatOfWhatItIsLike) {
  const Place first = came(1, kCode);
  const Place second = came(2, kOtherCode);
  for (ExecutionId execution = 3; execution < 20; execution += 2) {
    EXPECT_EQ(came(execution, kCode), first);
    EXPECT_EQ(came(execution + 1, kOtherCode), second);
  }
}

// A kernel may use a block several times, and something comes of it once.
TEST_F(UseHabitTest, BehindWhichNothingCameIsNoOther) {
  const Place place = came(1, kCode);
  EXPECT_EQ(place_of(2, kCode), place);
  EXPECT_EQ(place_of(3, kCode), place);
  EXPECT_EQ(place_of(2, kCode), std::nullopt);
  EXPECT_NE(came(2, kCode), std::nullopt);
  EXPECT_NE(place_of(2, kCode), std::nullopt);
}

TEST_F(UseHabitTest, OnlyTheLastOfThemAreKept) {
  (void)came(1, kCode);
  for (ExecutionId execution = 2; execution < 12; ++execution) {
    use(execution, kCode);
    use(execution, kCode);  // it is kept once
  }
  EXPECT_EQ(place_of(11, kCode), std::nullopt);
  EXPECT_EQ(place_of(4, kCode), std::nullopt);
  EXPECT_NE(place_of(2, kCode), std::nullopt);
}

TEST_F(UseHabitTest, OnceNothingCameIsNoReasonToForgetAndInVainIs) {
  const Place place = came(1, kCode);
  use(1, kCode);
  EXPECT_EQ(place_of(1, kCode), place);
  in_vain(1, kCode);
  EXPECT_EQ(place_of(1, kCode), std::nullopt);
  EXPECT_EQ(place_of(2, kCode), std::nullopt);
}

// Where ids never come again, nothing else would end it.
TEST_F(UseHabitTest, InVainTwiceInARowBehindTheSameCodeEndsThat) {
  const Place place = came(1, kCode);
  in_vain(2, kCode);
  EXPECT_EQ(place_of(2, kCode), std::nullopt);
  EXPECT_EQ(place_of(3, kCode), place);
  in_vain(4, kCode);
  EXPECT_EQ(place_of(5, kCode), std::nullopt);
  EXPECT_EQ(place_of(1, kCode), place);
  (void)came(1, kCode);
  EXPECT_EQ(place_of(6, kCode), place);
}

TEST_F(UseHabitTest, WhatIsNotKnownIsLikeNothing) {
  EXPECT_EQ(came(kNoExecution, 0), std::nullopt);
  EXPECT_EQ(came(kNoExecution, kCode), std::nullopt);
  EXPECT_EQ(place_of(1, kCode), std::nullopt);
  (void)came(1, kCode);
  EXPECT_EQ(place_of(kNoExecution, kCode), std::nullopt);
  (void)came(2, 0);
  EXPECT_EQ(place_of(3, 0), std::nullopt);
  in_vain(kNoExecution, 0);
  EXPECT_NE(place_of(1, kCode), std::nullopt);
}

}  // namespace
}  // namespace spillway
