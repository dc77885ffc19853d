// Faults wait for their time and, if what they need still moves, for another round.
#include "platform/host/faults/pending_faults.h"

#include <gtest/gtest.h>

namespace spillway::host {
namespace {

FaultRecord fault(BlockId block, TimeNs at_ns) {
  return {.block = block, .write = false, .missing = true, .page = 0, .at_ns = at_ns};
}

TEST(PendingFaults, ComeInTheirOrderWhenTheyAreDue) {
  PendingFaults faults;
  EXPECT_EQ(faults.next_at_ns(), std::nullopt);
  faults.add(fault(1, 10));
  faults.add(fault(2, 20));
  EXPECT_EQ(faults.next_at_ns(), 10);
  FaultRecord next;
  EXPECT_FALSE(faults.take(9, next));
  ASSERT_TRUE(faults.take(19, next));
  EXPECT_EQ(next.block, 1U);
  EXPECT_FALSE(faults.take(19, next));
  ASSERT_TRUE(faults.take(20, next));
  EXPECT_EQ(next.block, 2U);
  EXPECT_FALSE(faults.take(20, next));
}

// What is postponed does not come again in the same round, which would never end.
TEST(PendingFaults, WhatIsPostponedComesInTheNextRound) {
  PendingFaults faults;
  faults.add(fault(1, 10));
  faults.add(fault(2, 10));
  FaultRecord next;
  ASSERT_TRUE(faults.take(10, next));
  faults.postpone(next);
  ASSERT_TRUE(faults.take(10, next));
  EXPECT_EQ(next.block, 2U);
  EXPECT_FALSE(faults.take(10, next));
  faults.put_back();
  EXPECT_EQ(faults.next_at_ns(), 10);
  ASSERT_TRUE(faults.take(10, next));
  EXPECT_EQ(next.block, 1U);
}

}  // namespace
}  // namespace spillway::host
