// A peak that another kernel has with large batches than with small ones, worked out by hand.
#include "analysis/batch_memory.h"

#include <gtest/gtest.h>

#include "analysis/example_traces.h"

namespace spillway {
namespace {

// Weights of 100 bytes, a buffer of 1000 that `first` fills, and 40 for each of the batch.
Trace step_with(Bytes batch, std::string second = "second") {
  Trace t;
  t.tensors = {{100, true, false}, {1000, false, false}, {40 * batch, false, false}};
  t.kernels = {test::kernel("first", 1, {0}, {1}), test::kernel(std::move(second), 1, {0}, {2})};
  return t;
}

TEST(BatchMemory, IsTheHighestOfTheKernelsLines) {
  const Trace two = step_with(2);
  const Trace four = step_with(4);
  const Result<BatchMemory> memory = BatchMemory::between({two, 2}, {four, 4}, 1);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(memory->peak_bytes(2), 1100U) << "of the first kernel, as in both recordings";
  EXPECT_EQ(memory->peak_bytes(25), 1100U);
  EXPECT_EQ(memory->peak_bytes(26), 1140U) << "of the second: 100 + 26 * 40";
  EXPECT_EQ(memory->peak_bytes(100), 4100U);
}

TEST(BatchMemory, TakesTheRecordingsInAnyOrder) {
  const Trace two = step_with(2);
  const Trace four = step_with(4);
  const Result<BatchMemory> memory = BatchMemory::between({four, 4}, {two, 2}, 1);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(memory->peak_bytes(100), 4100U);
}

TEST(BatchMemory, SaysNothingOfStepsThatDiffer) {
  const Trace two = step_with(2);
  const Trace four = step_with(4, "another");
  const Result<BatchMemory> memory = BatchMemory::between({two, 2}, {four, 4}, 1);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(memory.error().message, "steps with batches of 2 and 4 are not the same kernels");
}

}  // namespace
}  // namespace spillway
