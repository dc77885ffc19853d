// What a program does in one iteration becomes a trace: who lives where and when, who uses what,
// how long kernels take without waiting.
#include "policy/prediction/recorded_iteration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/validate.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr AllocationId kWeights = 7;
constexpr AllocationId kBuffer = 2;

TEST(IterationRecorder, WhatWasThereBeforeAndStaysIsPersistent) {
  IterationRecorder recorder;
  recorder.launch(10, "forward", 1000, 0, true);
  recorder.access(kWeights, 8 * kMiB, false);
  recorder.access(kBuffer, kMiB, true);
  recorder.launch(11, "backward", 1500, 0, true);
  recorder.access(kBuffer, kMiB, false);
  recorder.died(kBuffer);
  recorder.launch(12, "optimizer", 1700, 0, true);
  recorder.access(kWeights, 8 * kMiB, false);
  recorder.access(kWeights, 8 * kMiB, true);
  recorder.access(kWeights, 8 * kMiB, true);
  const RecordedIteration made = recorder.finish(2000, 0).value();

  EXPECT_TRUE(validate_trace(made.trace, "recorded"));
  EXPECT_THAT(made.executions, ElementsAre(10, 11, 12));
  EXPECT_THAT(made.allocations, ElementsAre(kWeights, kBuffer));
  EXPECT_THAT(made.trace.tensors,
              ElementsAre(Tensor{8 * kMiB, true, false}, Tensor{kMiB, false, false}));
  ASSERT_EQ(made.trace.kernels.size(), 3U);
  EXPECT_EQ(made.trace.kernels[1].name, "backward");
  EXPECT_THAT(made.trace.kernels[0].reads, ElementsAre(0));
  EXPECT_THAT(made.trace.kernels[0].writes, ElementsAre(1));
  EXPECT_THAT(made.trace.kernels[2].reads, ElementsAre(0));
  EXPECT_THAT(made.trace.kernels[2].writes, ElementsAre(0));
}

// An allocator gives the same memory to one tensor after the other.
TEST(IterationRecorder, WhatLivesInOneAllocationFromDeathToDeathIsATensor) {
  IterationRecorder recorder;
  recorder.died(kBuffer);  // before anything was launched: the last iteration's
  for (ExecutionId k = 0; k < 3; ++k) {
    recorder.launch(k, "kernel", k * 100, 0, true);
    recorder.access(kBuffer, kMiB, true);
    recorder.died(kBuffer);
  }
  const RecordedIteration made = recorder.finish(300, 0).value();
  EXPECT_THAT(made.allocations, ElementsAre(kBuffer, kBuffer, kBuffer));
  for (TensorId id = 0; id < 3; ++id) {
    EXPECT_FALSE(made.trace.tensors[id].persistent);
    EXPECT_THAT(made.trace.kernels[id].writes, ElementsAre(id));
  }
}

TEST(IterationRecorder, WaitingIsNoPartOfAKernel) {
  IterationRecorder recorder;
  recorder.launch(0, "a", 1000, 50, true);
  recorder.launch(1, "b", 1600, 450, true);  // 400 of the 600 were waiting
  recorder.launch(2, "c", 1700, 650, true);  // a clock that disagrees with itself
  const RecordedIteration made = recorder.finish(1800, 650).value();
  EXPECT_EQ(made.trace.kernels[0].duration_ns, 200);
  EXPECT_EQ(made.trace.kernels[1].duration_ns, 1);
  EXPECT_EQ(made.trace.kernels[2].duration_ns, 100);
}

TEST(IterationRecorder, NothingLaunchedIsNoIteration) {
  IterationRecorder recorder;
  recorder.access(kWeights, kMiB, true);  // of a launch before the recording
  EXPECT_FALSE(recorder.finish(100, 0));
  recorder.launch(0, "later", 100, 0, false);
  const auto made = recorder.finish(200, 0);
  ASSERT_TRUE(made);
  EXPECT_THAT(made->trace.tensors, IsEmpty());
  EXPECT_FALSE(made->complete);
}

}  // namespace
}  // namespace spillway
