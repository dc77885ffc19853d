// How much a platform may keep beyond what a heap has.
#include "heap/platform_keep.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway {
namespace {

constexpr Bytes kEverything = ~Bytes{0};

TEST(PlatformKeep, TellsWhatHasChanged) {
  std::vector<Bytes> told;
  PlatformKeep keep([&](Bytes bytes) { told.push_back(bytes); });
  keep.before_making(50, true);
  keep.before_making(50, true);
  keep.before_making(60, false);
  EXPECT_EQ(told, (std::vector<Bytes>{50, kEverything}));
}

TEST(PlatformKeep, AfterATrimItFollowsTheHeapUntilThatHasAsMuchAsBefore) {
  std::vector<Bytes> told;
  PlatformKeep keep([&](Bytes bytes) { told.push_back(bytes); });
  keep.trims(100);
  keep.at_most(40);
  keep.before_making(50, false);
  keep.before_making(45, false);
  EXPECT_EQ(told, (std::vector<Bytes>{40, 50}));
  keep.before_making(100, false);
  EXPECT_EQ(told.back(), kEverything);
}

}  // namespace
}  // namespace spillway
