// When each tensor is used next, worked by hand and against looking ahead kernel by kernel.
#include "policy/next_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "analysis/example_traces.h"
#include "policy/page_machine.h"

namespace spillway {
namespace {

using testing::ElementsAre;

std::vector<TensorId> latest_first(const NextUse& next_use) {
  std::vector<TensorId> ids;
  for (auto entry = next_use.order().rbegin(); entry != next_use.order().rend(); ++entry) {
    ids.push_back(entry->second);
  }
  return ids;
}

// Tensor 0 at kernels 0 and 3, tensor 1 at 1 and 2, tensor 2 at 2 only.
Trace hand_trace() {
  return test::trace_of_uses({test::weight(1), test::weight(1), test::weight(1)},
                             {{0}, {1}, {1, 2}, {0}});
}

TEST(NextUse, CountsLaunchesToTheNextUse) {
  NextUse next_use(hand_trace());
  next_use.advance(0);
  EXPECT_EQ(next_use.distance(0), 0U);  // an operand of the current kernel
  EXPECT_EQ(next_use.distance(1), 1U);
  EXPECT_EQ(next_use.distance(2), 2U);
  EXPECT_THAT(latest_first(next_use), ElementsAre(2, 1, 0));
  next_use.advance(1);
  EXPECT_EQ(next_use.distance(0), 2U);
  EXPECT_EQ(next_use.distance(1), 0U);
  EXPECT_EQ(next_use.distance(2), 1U);
  EXPECT_THAT(latest_first(next_use), ElementsAre(0, 2, 1));
}

TEST(NextUse, TheLastUseIsFollowedByTheFirstOfTheNextIteration) {
  NextUse next_use(hand_trace());
  for (const KernelIndex position : {0U, 1U, 2U, 3U}) next_use.advance(position);
  EXPECT_EQ(next_use.distance(0), 0U);
  EXPECT_EQ(next_use.distance(1), 2U);  // kernel 1 of the next iteration
  EXPECT_EQ(next_use.distance(2), 3U);
  EXPECT_THAT(latest_first(next_use), ElementsAre(2, 1, 0));
  next_use.advance(0);
  EXPECT_EQ(next_use.distance(0), 0U);
  EXPECT_EQ(next_use.distance(1), 1U);
  EXPECT_EQ(next_use.distance(2), 2U);
}

TEST(NextUse, AKernelThatIsLaunchedInPiecesStaysTheCurrentOne) {
  NextUse next_use(hand_trace());
  for (const KernelIndex position : {0U, 1U, 1U, 1U}) next_use.advance(position);
  EXPECT_EQ(next_use.distance(1), 0U);
  EXPECT_EQ(next_use.distance(0), 2U);
}

TEST(NextUse, WhatIsNeverUsedIsNeededLastInEveryIteration) {
  Trace trace = hand_trace();
  trace.tensors.push_back(test::weight(1));
  NextUse next_use(trace);
  for (int iteration = 0; iteration < 4; ++iteration) {
    for (const KernelIndex position : {0U, 1U, 2U, 3U}) {
      next_use.advance(position);
      EXPECT_GT(next_use.distance(3), 4U);
      EXPECT_EQ(latest_first(next_use).front(), 3U);
    }
  }
}

TEST(NextUse, AgreesWithLookingAhead) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const Trace trace = test::random_trace(seed);
    const std::size_t kernels = trace.kernels.size();
    NextUse next_use(trace);
    for (std::size_t launch = 0; launch < 3 * kernels; ++launch) {
      next_use.advance(static_cast<KernelIndex>(launch % kernels));
      ASSERT_EQ(next_use.order().size(), trace.tensors.size());
      for (TensorId id = 0; id < trace.tensors.size(); ++id) {
        std::size_t ahead = 0;
        while (ahead < kernels && !test::uses(trace.kernels[(launch + ahead) % kernels], id)) {
          ++ahead;
        }
        if (ahead < kernels) {
          ASSERT_EQ(next_use.distance(id), ahead) << "launch " << launch << ", tensor " << id;
        } else {
          ASSERT_GT(next_use.distance(id), kernels);
        }
      }
      for (auto entry = next_use.order().begin(); entry != next_use.order().end(); ++entry) {
        const auto after = std::next(entry);
        if (after != next_use.order().end()) {
          ASSERT_LE(next_use.distance(entry->second), next_use.distance(after->second));
        }
      }
    }
  }
}

}  // namespace
}  // namespace spillway
