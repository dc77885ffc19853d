// Which sizes become one: those that are near, live at other times, and are not what the peak is
// made of.
#include "platform/common/near_sizes.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

void born(NearSizes& near, Bytes size, int count) {
  for (int i = 0; i < count; ++i) {
    near.born(size);
  }
}
void died(NearSizes& near, Bytes size, int count) {
  for (int i = 0; i < count; ++i) {
    near.died(size);
  }
}

// What a step does: some live, and then others do.
void after_each_other(NearSizes& near, Bytes first, int firsts, Bytes then, int thens) {
  born(near, first, firsts);
  died(near, first, firsts);
  born(near, then, thens);
  died(near, then, thens);
}

TEST(NearSizes, ThoseOfOtherTimesBecomeOne) {
  NearSizes near;
  EXPECT_EQ(near.better(38 * kMiB), 38 * kMiB);
  after_each_other(near, 38 * kMiB, 4, 40 * kMiB, 4);
  EXPECT_EQ(near.better(38 * kMiB), 40 * kMiB);
  EXPECT_EQ(near.better(40 * kMiB), 40 * kMiB);
  EXPECT_EQ(near.better(36 * kMiB), 36 * kMiB);  // which nobody has asked for
}

TEST(NearSizes, NotThoseThatAreInUseTogether) {
  NearSizes near;
  born(near, 38 * kMiB, 4);
  born(near, 40 * kMiB, 4);
  EXPECT_EQ(near.better(38 * kMiB), 38 * kMiB);
  died(near, 38 * kMiB, 4);
  died(near, 40 * kMiB, 4);
  after_each_other(near, 38 * kMiB, 4, 40 * kMiB, 4);  // what was, counts
  EXPECT_EQ(near.better(38 * kMiB), 38 * kMiB);
}

// Ten of 38 and what else is in use are the most: they would need 20 MiB more then.
TEST(NearSizes, NotWhatThePeakIsMadeOf) {
  NearSizes near;
  near.born(100 * kMiB);
  born(near, 38 * kMiB, 10);
  died(near, 38 * kMiB, 10);
  near.died(100 * kMiB);
  born(near, 40 * kMiB, 2);
  died(near, 40 * kMiB, 2);
  EXPECT_EQ(near.better(38 * kMiB), 38 * kMiB);
  // With as many of the other size that is little.
  born(near, 40 * kMiB, 10);
  EXPECT_EQ(near.better(38 * kMiB), 40 * kMiB);
}

TEST(NearSizes, NeitherMuchLargerOnesNorSmallOrVeryLargeOnes) {
  NearSizes near;
  after_each_other(near, 32 * kMiB, 4, 38 * kMiB, 4);
  EXPECT_EQ(near.better(32 * kMiB), 32 * kMiB);
  after_each_other(near, 1024 * kKiB, 4, 1025 * kKiB, 4);
  EXPECT_EQ(near.better(1024 * kKiB), 1024 * kKiB);
  after_each_other(near, 256 * kMiB, 4, 258 * kMiB, 4);
  EXPECT_EQ(near.better(256 * kMiB), 256 * kMiB);
}

TEST(NearSizes, TheOneThatSavesMost) {
  NearSizes near;
  after_each_other(near, 60 * kMiB, 2, 64 * kMiB, 8);
  after_each_other(near, 60 * kMiB, 2, 62 * kMiB, 1);
  EXPECT_EQ(near.better(60 * kMiB), 64 * kMiB);
  EXPECT_EQ(near.better(62 * kMiB), 64 * kMiB);
}

// What goes elsewhere itself leaves nothing behind.
TEST(NearSizes, NotThoseThatAreGivenMoreThemselves) {
  NearSizes near;
  after_each_other(near, 32 * kMiB, 8, 36 * kMiB, 8);
  EXPECT_EQ(near.better(32 * kMiB), 36 * kMiB);
  after_each_other(near, 36 * kMiB, 8, 40 * kMiB, 8);
  EXPECT_EQ(near.better(36 * kMiB), 40 * kMiB);
  EXPECT_EQ(near.better(32 * kMiB), 32 * kMiB);
}

}  // namespace
}  // namespace spillway
