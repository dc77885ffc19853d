// The optimizer's kernels of a trace as updates: roles, parts of time, when each is ready.
#include "analysis/traced_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using testing::ElementsAre;

// Parameters 0 (4 KiB) and 1 (8 KiB); their gradients 2 and 3; first moments 4, 5; second 6, 7;
// steps 8, 9.
Trace small_step() {
  Trace trace;
  for (const Bytes kib : {4U, 8U}) {
    trace.tensors.push_back({.bytes = kib * kKiB, .persistent = true});
  }
  for (const Bytes kib : {4U, 8U}) {
    trace.tensors.push_back({.bytes = kib * kKiB});
  }
  for (const Bytes kib : {4U, 8U, 4U, 8U}) {
    trace.tensors.push_back({.bytes = kib * kKiB, .persistent = true});
  }
  trace.tensors.push_back({.bytes = 4, .persistent = true});
  trace.tensors.push_back({.bytes = 4, .persistent = true});
  const auto kernel = [&](const char* name, TimeNs ns, std::vector<TensorId> reads,
                          std::vector<TensorId> writes) {
    trace.kernels.push_back({.name = name, .duration_ns = ns, .reads = reads, .writes = writes});
  };
  kernel("forward", 100, {0, 1}, {});
  kernel("backward 1", 100, {1}, {3});
  kernel("backward 0", 100, {0}, {2});
  kernel("norm", 10, {2, 3}, {});
  kernel("multi_tensor_apply_kernel<Add>", 10, {8, 9}, {8, 9});
  kernel("multi_tensor_apply_kernel<FusedAdam>", 90, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
         {0, 1, 2, 3, 4, 5, 6, 7});
  return trace;
}

TEST(TracedUpdates, AreFoundByWhoUsesWhat) {
  const TracedUpdates found = find_updates(small_step());
  ASSERT_EQ(found.updates.size(), 2U);
  EXPECT_EQ(found.updates[0].parameter, 0U);
  EXPECT_EQ(found.updates[0].gradient, 2U);
  EXPECT_THAT(found.updates[0].states, ElementsAre(4, 6));
  EXPECT_EQ(found.updates[1].parameter, 1U);
  EXPECT_EQ(found.updates[1].gradient, 3U);
  EXPECT_THAT(found.updates[1].states, ElementsAre(5, 7));
  EXPECT_THAT(found.replaced, ElementsAre(false, false, false, false, false, true));
  // By bytes: a third and two.
  EXPECT_EQ(found.updates[0].duration_ns, 30);
  EXPECT_EQ(found.updates[1].duration_ns, 60);
}

// Who only reads the gradient, which an update only reads, need not be over.
TEST(TracedUpdates, AreReadyWhenTheirGradientsAre) {
  const TracedUpdates found = find_updates(small_step());
  EXPECT_EQ(found.updates[0].ready_behind, 2U);
  EXPECT_EQ(found.updates[1].ready_behind, 1U);
}

TEST(TracedUpdates, WaitForWhoeverReadsTheParameterOrWritesTheGradient) {
  Trace trace = small_step();
  trace.kernels[3] = {.name = "clip", .duration_ns = 10, .reads = {2}, .writes = {2}};
  trace.kernels[2].reads.push_back(1);
  const TracedUpdates found = find_updates(trace);
  EXPECT_EQ(found.updates[0].ready_behind, 3U);
  EXPECT_EQ(found.updates[1].ready_behind, 2U);
}

// A large parameter is spread over launches, and behind a shorter list lie leftovers of a longer
// one.
TEST(TracedUpdates, ComeOnceAndWithoutLeftovers) {
  Trace trace = small_step();
  trace.kernels.push_back({.name = "multi_tensor_apply_kernel<FusedAdam>",
                           .duration_ns = 60,
                           .reads = {1, 3, 2, 5, 7, 9, 0, 4},
                           .writes = {1, 3, 2, 5, 7, 0, 4}});
  const TracedUpdates found = find_updates(trace);
  ASSERT_EQ(found.updates.size(), 2U);
  EXPECT_EQ(found.updates[0].duration_ns, 50);
  EXPECT_EQ(found.updates[1].duration_ns, 100);
  EXPECT_TRUE(found.replaced[6]);
  EXPECT_EQ(found.updates[1].kernel, 5U);
}

TEST(TracedUpdates, AreNoOtherKernels) {
  Trace trace = small_step();
  trace.kernels.back().name = "addcmul";
  EXPECT_TRUE(find_updates(trace).updates.empty());
  trace = small_step();
  trace.kernels.back().name = "multi_tensor_apply_kernel<Lerp>";
  trace.kernels.back().reads = {4, 2};  // first moments and gradients, no parameter
  trace.kernels.back().writes = {4};
  EXPECT_TRUE(find_updates(trace).updates.empty());
}

}  // namespace
}  // namespace spillway
