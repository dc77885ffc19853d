// Handles by size: what is used again costs nothing, and room for another size is released first.
#include "platform/sim/handle_pool.h"

#include <gtest/gtest.h>

namespace spillway::sim {
namespace {

constexpr Handles kPoolCosts{.create_ns = 10, .release_ns = 7};

TEST(HandlePool, MakesOneWhereNoneOfItsSizeIsFree) {
  HandlePool pool(kPoolCosts, 8 * kMiB);
  EXPECT_EQ(pool.take(2 * kMiB), 10);
  EXPECT_EQ(pool.take(2 * kMiB), 10);
  pool.give_back(2 * kMiB);
  EXPECT_EQ(pool.take(2 * kMiB), 0);
  EXPECT_EQ(pool.made(), 2U);
  EXPECT_EQ(pool.bytes(), 4 * kMiB);
}

TEST(HandlePool, ReleasesTheOldestForAnotherSize) {
  HandlePool pool(kPoolCosts, 8 * kMiB);
  for (const Bytes bytes : {4 * kMiB, 2 * kMiB, 2 * kMiB}) {
    EXPECT_EQ(pool.take(bytes), 10);
  }
  pool.give_back(2 * kMiB);
  pool.give_back(4 * kMiB);
  pool.give_back(2 * kMiB);
  EXPECT_EQ(pool.take(6 * kMiB), 7 + 7 + 10);  // of 2 and of 4 MiB; the younger one of 2 stays
  EXPECT_EQ(pool.bytes(), 8 * kMiB);
  EXPECT_EQ(pool.take(2 * kMiB), 0);
}

TEST(HandlePool, ReleasesNothingWhereThereIsRoom) {
  HandlePool pool(kPoolCosts, 8 * kMiB);
  EXPECT_EQ(pool.take(4 * kMiB), 10);
  pool.give_back(4 * kMiB);
  EXPECT_EQ(pool.take(2 * kMiB), 10);
  EXPECT_EQ(pool.bytes(), 6 * kMiB);
}

}  // namespace
}  // namespace spillway::sim
