// A step between and beyond two recorded batch sizes.
#include "analysis/batch_steps.h"

#include <gtest/gtest.h>

#include "analysis/example_traces.h"

namespace spillway {
namespace {

// A weight of 100 bytes, and 40 for each of the batch; a kernel of 5 ns and 3 for each.
Trace growing_step(Bytes batch) {
  Trace t;
  t.tensors = {{100, true, false}, {40 * batch, false, false}};
  t.kernels = {test::kernel("k", static_cast<TimeNs>(5 + 3 * batch), {0}, {1})};
  return t;
}

TEST(BatchSteps, AreLinesOverTheBatch) {
  const Trace two = growing_step(2);
  const Trace four = growing_step(4);
  const Result<BatchSteps> steps = BatchSteps::between({four, 4}, {two, 2});
  ASSERT_TRUE(steps);
  for (const Bytes batch : {1U, 2U, 3U, 4U, 100U}) {
    Trace expected = growing_step(batch);
    expected.batch_size = batch;
    EXPECT_EQ(steps->at(batch), expected) << batch;
  }
}

// 30 bytes less for each more: none would be left at 4.
TEST(BatchSteps, KeepSizesAboveNothing) {
  Trace one = growing_step(1);
  Trace two = growing_step(2);
  one.tensors[1].bytes = 60;
  two.tensors[1].bytes = 30;
  const Result<BatchSteps> steps = BatchSteps::between({one, 1}, {two, 2});
  ASSERT_TRUE(steps);
  EXPECT_EQ(steps->at(4).tensors[1].bytes, 1U);
}

TEST(BatchSteps, AreNoneOfStepsThatDiffer) {
  const Trace two = growing_step(2);
  Trace four = growing_step(4);
  four.kernels[0].reads = {};
  const Result<BatchSteps> steps = BatchSteps::between({two, 2}, {four, 4});
  ASSERT_FALSE(steps);
  EXPECT_EQ(steps.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace spillway
