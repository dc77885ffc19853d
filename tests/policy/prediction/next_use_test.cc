// When each tensor is used next, worked by hand and against looking ahead kernel by kernel.
#include "policy/prediction/next_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

// Launches from this one to the tensor's next use.
std::uint64_t distance(const NextUse& next_use, TensorId id, std::uint64_t launch) {
  const auto entry =
      std::ranges::find(next_use.order(), id, [](const auto& e) { return e.second; });
  return entry->first - launch;
}

// Tensor 0 at kernels 0 and 3, tensor 1 at 1 and 2, tensor 2 at 2 only.
Trace hand_trace() {
  return test::trace_of_uses({test::weight(1), test::weight(1), test::weight(1)},
                             {{0}, {1}, {1, 2}, {0}});
}

TEST(NextUse, CountsLaunchesToTheNextUse) {
  NextUse next_use(hand_trace());
  next_use.advance(0);
  EXPECT_EQ(distance(next_use, 0, 0), 0U);  // an operand of the current kernel
  EXPECT_EQ(distance(next_use, 1, 0), 1U);
  EXPECT_EQ(distance(next_use, 2, 0), 2U);
  EXPECT_THAT(latest_first(next_use), ElementsAre(2, 1, 0));
  next_use.advance(1);
  EXPECT_EQ(distance(next_use, 0, 1), 2U);
  EXPECT_EQ(distance(next_use, 1, 1), 0U);
  EXPECT_EQ(distance(next_use, 2, 1), 1U);
  EXPECT_THAT(latest_first(next_use), ElementsAre(0, 2, 1));
}

TEST(NextUse, TheLastUseIsFollowedByTheFirstOfTheNextIteration) {
  NextUse next_use(hand_trace());
  for (const KernelIndex position : {0U, 1U, 2U, 3U}) next_use.advance(position);
  EXPECT_EQ(distance(next_use, 0, 3), 0U);
  EXPECT_EQ(distance(next_use, 1, 3), 2U);  // kernel 1 of the next iteration
  EXPECT_EQ(distance(next_use, 2, 3), 3U);
  EXPECT_THAT(latest_first(next_use), ElementsAre(2, 1, 0));
  next_use.advance(0);
  EXPECT_EQ(distance(next_use, 0, 4), 0U);
  EXPECT_EQ(distance(next_use, 1, 4), 1U);
  EXPECT_EQ(distance(next_use, 2, 4), 2U);
}

TEST(NextUse, AKernelThatIsLaunchedInPiecesStaysTheCurrentOne) {
  NextUse next_use(hand_trace());
  for (const KernelIndex position : {0U, 1U, 1U, 1U}) next_use.advance(position);
  EXPECT_EQ(distance(next_use, 1, 1), 0U);
  EXPECT_EQ(distance(next_use, 0, 1), 2U);
}

TEST(NextUse, WhatIsNeverUsedIsNeededLastInEveryIteration) {
  Trace trace = hand_trace();
  trace.tensors.push_back(test::weight(1));
  NextUse next_use(trace);
  for (std::uint64_t iteration = 0; iteration < 4; ++iteration) {
    for (const KernelIndex position : {0U, 1U, 2U, 3U}) {
      next_use.advance(position);
      EXPECT_GT(distance(next_use, 3, 4 * iteration + position), 4U);
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
          ASSERT_EQ(distance(next_use, id, launch), ahead)
              << "launch " << launch << ", tensor " << id;
        } else {
          ASSERT_GT(distance(next_use, id, launch), kernels);
        }
      }
      for (auto entry = next_use.order().begin(); entry != next_use.order().end(); ++entry) {
        const auto after = std::next(entry);
        if (after != next_use.order().end()) {
          ASSERT_LE(distance(next_use, entry->second, launch),
                    distance(next_use, after->second, launch));
        }
      }
    }
  }
}

}  // namespace
}  // namespace spillway
