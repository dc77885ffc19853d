// Which found iterations are worth watching one of.
#include "runtime/record/found_iterations.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(FoundIterations, TheFourthAlikeIsSteady) {
  FoundIterations found;
  EXPECT_FALSE(found.ended(100));
  EXPECT_FALSE(found.ended(105));
  EXPECT_FALSE(found.ended(98));
  EXPECT_TRUE(found.ended(100));
  EXPECT_FALSE(found.ended(1200));  // those were layers
  EXPECT_FALSE(found.ended(1200));
  EXPECT_FALSE(found.ended(1200));
  EXPECT_TRUE(found.ended(1200));
}

TEST(FoundIterations, LengthsInTurnAreNever) {
  FoundIterations found;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(found.ended(i % 2 == 0 ? 100 : 150)) << i;
  }
}

TEST(FoundIterations, WhatDoesNotRepeatIsCutButNotSteady) {
  FoundIterations found;
  for (int i = 0; i < 8; ++i) {
    EXPECT_FALSE(found.ended(IterationFinder::kLaunchesMax)) << i;
  }
}

TEST(FoundIterations, AnotherLengthThanTheWatchedOneIsAnother) {
  FoundIterations found;
  (void)found.ended(100);
  EXPECT_TRUE(found.other());  // none was watched yet
  found.watched();
  (void)found.ended(110);
  EXPECT_FALSE(found.other());
  (void)found.ended(300);
  EXPECT_TRUE(found.other());
}

}  // namespace
}  // namespace spillway
