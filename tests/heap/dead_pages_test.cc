// A filter of dead pages.
#include "heap/dead_pages.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(DeadPages, EveryPageOfWhatIsAddedIsInIt) {
  DeadPages pages;
  EXPECT_FALSE(pages.may_have(0, 100 * kBlockBytes));
  pages.add(4 * kBlockBytes, 2 * kBlockBytes);
  EXPECT_TRUE(pages.may_have(4 * kBlockBytes, 1));
  EXPECT_TRUE(pages.may_have(6 * kBlockBytes - 1, 0));
  EXPECT_TRUE(pages.may_have(3 * kBlockBytes, kBlockBytes + 1));  // it ends there
  EXPECT_FALSE(pages.may_have(3 * kBlockBytes, kBlockBytes));
  pages.clear();
  EXPECT_FALSE(pages.may_have(4 * kBlockBytes, 2 * kBlockBytes));
}

}  // namespace
}  // namespace spillway
