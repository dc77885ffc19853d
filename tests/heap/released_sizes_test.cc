// Of which sizes a heap once had more than it has.
#include "heap/released_sizes.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(ReleasedSizes, WhatWasGivenUpUntilItIsMadeAgain) {
  ReleasedSizes missing;
  EXPECT_FALSE(missing.has(20));
  missing.gave_up(20);
  missing.gave_up(20);
  EXPECT_TRUE(missing.has(20));
  EXPECT_FALSE(missing.has(30));
  missing.made(20);
  EXPECT_TRUE(missing.has(20));
  missing.made(20);
  EXPECT_FALSE(missing.has(20));
  missing.made(20);  // one by which the program grows
  EXPECT_FALSE(missing.has(20));
}

TEST(ReleasedSizes, WhatIsLentUntilItIsReturned) {
  ReleasedSizes missing;
  missing.gave_up(20);
  missing.lent(30, 20);  // instead of it
  EXPECT_FALSE(missing.has(20));
  EXPECT_TRUE(missing.has(30));
  missing.returned(30, 20);
  EXPECT_TRUE(missing.has(20));
  EXPECT_FALSE(missing.has(30));
}

// The one that asked for 30 meanwhile has got a new one, which is one more than there ever were.
TEST(ReleasedSizes, MoreThanEverAreNotMissing) {
  ReleasedSizes missing;
  missing.gave_up(20);
  missing.lent(30, 20);
  missing.made(30);
  EXPECT_FALSE(missing.has(30));
  missing.returned(30, 20);
  EXPECT_FALSE(missing.has(30));
}

}  // namespace
}  // namespace spillway
