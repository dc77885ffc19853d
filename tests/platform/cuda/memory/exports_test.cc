// Numbers by which other processes know what they use.
#include "platform/cuda/memory/exports.h"

#include <gtest/gtest.h>

namespace spillway::cuda {
namespace {

TEST(Exports, ANumberIsGivenOnce) {
  Exports exports;
  const std::uint64_t first = exports.add(7);
  EXPECT_EQ(exports.find(first), 7U);
  EXPECT_EQ(exports.number_of(7), first);
  exports.remove(7);
  EXPECT_FALSE(exports.find(first).has_value());
  EXPECT_FALSE(exports.contains(7));
  const std::uint64_t second = exports.add(7);
  EXPECT_NE(second, first);  // who still has the first must not find what lies there now
  EXPECT_EQ(exports.size(), 1U);
}

TEST(Exports, OneIsHandedOutAtATime) {
  Exports exports;
  (void)exports.add(7);
  EXPECT_FALSE(exports.hands_out());
  exports.hand_out(7);
  EXPECT_TRUE(exports.is_handed_out(7));
  EXPECT_FALSE(exports.is_handed_out(8));
  exports.handed_out();
  EXPECT_FALSE(exports.hands_out());
}

}  // namespace
}  // namespace spillway::cuda
