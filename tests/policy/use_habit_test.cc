// Which uses of a block count as the same.
#include "policy/use_habit.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr std::uint64_t kCode = 7;
constexpr std::uint64_t kOtherCode = 8;

TEST(UseHabitTest, ThePlaceOfAUseIsThatOfTheSameExecution) {
  UseHabit habit;
  EXPECT_EQ(habit.find({1, kCode}), std::nullopt);
  const std::optional<std::size_t> first = habit.came({1, kCode});
  const std::optional<std::size_t> second = habit.came({2, kOtherCode});
  EXPECT_NE(first, second);
  EXPECT_EQ(habit.find({1, kCode}), first);
  EXPECT_EQ(habit.find({2, kOtherCode}), second);
  EXPECT_EQ(habit.came({1, kCode}), first);
  EXPECT_EQ(habit.came({3, 9}), first);  // the oldest makes way
  EXPECT_EQ(habit.find({1, kCode}), std::nullopt);
  EXPECT_EQ(habit.find({2, kOtherCode}), second);
}

TEST(UseHabitTest, AnotherExecutionOfTheSameCodeIsLikeIt) {
  UseHabit habit;
  const std::optional<std::size_t> place = habit.came({1, kCode});
  ASSERT_TRUE(place);
  EXPECT_EQ(habit.find({2, kCode}), place);
  EXPECT_EQ(habit.find({0, kCode}), place);
  EXPECT_EQ(habit.find({2, kOtherCode}), std::nullopt);
}

// Something may come behind both.
TEST(UseHabitTest, TwoUsesOfOneCodeHaveAPlaceEach) {
  UseHabit habit;
  const std::optional<std::size_t> first = habit.came({1, kCode});
  const std::optional<std::size_t> second = habit.came({2, kCode});
  ASSERT_TRUE(first && second);
  EXPECT_NE(first, second);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(habit.came({1, kCode}), first);
    EXPECT_EQ(habit.came({2, kCode}), second);
  }
}

TEST(UseHabitTest, WhereThereIsNoOtherPlaceItIsThatOfWhatItIsLike) {
  UseHabit habit;
  const std::optional<std::size_t> first = habit.came({1, kCode});
  const std::optional<std::size_t> second = habit.came({2, kOtherCode});
  for (ExecutionId execution = 3; execution < 20; execution += 2) {
    EXPECT_EQ(habit.came({execution, kCode}), first);
    EXPECT_EQ(habit.came({execution + 1, kOtherCode}), second);
  }
}

// A kernel may use a block several times, and something comes of it once.
TEST(UseHabitTest, BehindWhichNothingCameIsNoOther) {
  UseHabit habit;
  (void)habit.came({1, kCode});
  habit.nothing_came({2, kCode});
  EXPECT_EQ(habit.find({2, kCode}), std::nullopt);
  EXPECT_NE(habit.find({3, kCode}), std::nullopt);
  (void)habit.came({2, kCode});
  EXPECT_NE(habit.find({2, kCode}), std::nullopt);
}

TEST(UseHabitTest, OnlyTheLastOfThemAreKept) {
  UseHabit habit;
  (void)habit.came({1, kCode});
  for (ExecutionId execution = 2; execution < 12; ++execution) {
    habit.nothing_came({execution, kCode});
    habit.nothing_came({execution, kCode});  // once
  }
  EXPECT_NE(habit.find({2, kCode}), std::nullopt);
  EXPECT_EQ(habit.find({11, kCode}), std::nullopt);
  EXPECT_EQ(habit.find({4, kCode}), std::nullopt);
}

TEST(UseHabitTest, OnceNothingCameIsNoReasonToForgetAndInVainIs) {
  UseHabit habit;
  const std::optional<std::size_t> place = habit.came({1, kCode});
  habit.nothing_came({1, kCode});
  EXPECT_EQ(habit.find({1, kCode}), place);
  habit.in_vain({1, kCode});
  EXPECT_EQ(habit.find({1, kCode}), std::nullopt);
  EXPECT_EQ(habit.find({2, kCode}), std::nullopt);
}

// Where ids never come again, nothing else would end it.
TEST(UseHabitTest, InVainTwiceInARowBehindTheSameCodeEndsThat) {
  UseHabit habit;
  const std::optional<std::size_t> place = habit.came({1, kCode});
  habit.in_vain({2, kCode});
  EXPECT_EQ(habit.find({2, kCode}), std::nullopt);
  EXPECT_EQ(habit.find({3, kCode}), place);
  habit.in_vain({3, kCode});
  EXPECT_EQ(habit.find({4, kCode}), std::nullopt);
  EXPECT_EQ(habit.find({1, kCode}), place);
  (void)habit.came({1, kCode});
  EXPECT_EQ(habit.find({4, kCode}), place);
}

TEST(UseHabitTest, WhatIsNotKnownIsLikeNothing) {
  UseHabit habit;
  EXPECT_EQ(habit.came({}), std::nullopt);
  EXPECT_EQ(habit.came({kNoExecution, kCode}), std::nullopt);
  EXPECT_EQ(habit.find({1, kCode}), std::nullopt);
  (void)habit.came({1, kCode});
  EXPECT_EQ(habit.find({kNoExecution, kCode}), std::nullopt);
  (void)habit.came({2, 0});
  EXPECT_EQ(habit.find({3, 0}), std::nullopt);
  habit.in_vain({});
  habit.nothing_came({});
  EXPECT_NE(habit.find({1, kCode}), std::nullopt);
}

}  // namespace
}  // namespace spillway
