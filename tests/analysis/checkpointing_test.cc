// Checkpointed steps, whose peaks and times are worked out by hand.
#include "analysis/checkpointing.h"

#include <gtest/gtest.h>

#include "analysis/layered_step.h"
#include "analysis/memory_curve.h"
#include "trace/validate.h"

namespace spillway {
namespace {

Bytes peak_of(const Trace& trace) {
  return memory_curve(trace, analyze_vitality(trace)).peak_live_bytes;
}

TimeNs time_of(const Trace& trace) {
  TimeNs total_ns = 0;
  for (const Kernel& kernel : trace.kernels) total_ns += kernel.duration_ns;
  return total_ns;
}

class CheckpointedStep : public ::testing::Test {
 protected:
  static constexpr TensorId kLayers = 8;
  CheckpointedStep() : trace_(test::layered_step(kLayers)), found_(find_checkpoints(trace_, 1)) {}

  Trace trace_;
  Result<Checkpoints> found_;
};

// "narrow" is the last kernel of a layer: 10 bytes lead on behind it, 110 in front of it.
TEST_F(CheckpointedStep, HasItsLayersAsBlocks) {
  ASSERT_TRUE(found_) << found_.error().message;
  ASSERT_EQ(found_->size(), 1U);
  const CheckpointedPass& pass = found_->front();
  EXPECT_EQ(pass.layers, 1U);
  ASSERT_EQ(pass.blocks.size(), kLayers);
  for (KernelIndex i = 0; i < kLayers; ++i) {
    EXPECT_EQ(pass.blocks[i], (ForwardBlock{2 * i, 2 * i + 2}));
  }
}

// Weights 8 * 16. Without: the eight of 100, nine of 10 that lead in, and on from the last, which
// the loss reads last, and its gradient of 10; in the backward kernel of the last layer instead of
// what leads on the gradients of 10 and 16: 128 + 800 + 80 + 10 + 10 + 16 = 1044.
// With: 128 + 80 + 100 + 10 + 10 + 16 there, 344; the layers before it have a gradient of 16 more
// and what led into the one behind less, 10: the first has 128 + 10 + 100 + 20 + 8 * 16 = 386.
TEST_F(CheckpointedStep, KeepsWhatLeadsIntoLayers) {
  ASSERT_TRUE(found_);
  EXPECT_EQ(peak_of(trace_), 1044U);
  const Trace with = checkpointed(trace_, *found_);
  EXPECT_TRUE(validate_trace(with, "with")) << validate_trace(with, "with").error().message;
  EXPECT_EQ(peak_of(with), 386U);
}

// "narrow" makes what leads on, which is kept: only "wide" runs again, 3 ns a layer.
TEST_F(CheckpointedStep, RunsAgainUpToTheLastThatIsWanted) {
  ASSERT_TRUE(found_);
  const Trace with = checkpointed(trace_, *found_);
  EXPECT_EQ(with.kernels.size(), trace_.kernels.size() + kLayers);
  EXPECT_EQ(time_of(with), time_of(trace_) + TimeNs{3} * kLayers);
  const KernelIndex loss = 2 * kLayers;
  EXPECT_EQ(with.kernels[loss + 1].name, "wide");
  EXPECT_EQ(with.kernels[loss + 2].name, "backward");
  EXPECT_EQ(with.kernels[loss + 3].name, "wide");
}

// The host does not wait again.
TEST_F(CheckpointedStep, SynchronizesOnce) {
  for (Kernel& kernel : trace_.kernels) kernel.synchronizes = kernel.name == "wide";
  const Trace with = checkpointed(trace_, *found_);
  const auto waits = std::count_if(with.kernels.begin(), with.kernels.end(),
                                   [](const Kernel& kernel) { return kernel.synchronizes; });
  EXPECT_EQ(waits, kLayers);
}

// Nothing repeats where every kernel has a name of its own: parts that keep equally much.
TEST_F(CheckpointedStep, IsInEvenPartsWhereNothingRepeats) {
  for (std::size_t i = 0; i < trace_.kernels.size(); ++i) {
    trace_.kernels[i].name += std::to_string(i);
  }
  const Result<Checkpoints> found = find_checkpoints(trace_, 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->front().layers, 0U);
  EXPECT_GE(found->front().blocks.size(), 2U);
  const Trace with = checkpointed(trace_, *found);
  EXPECT_TRUE(validate_trace(with, "with"));
  EXPECT_LT(peak_of(with), 700U);
}

TEST(Checkpointing, IsNotOfAStepWithoutABackwardPass) {
  Trace t;
  t.tensors = {{10, true, false}};
  t.kernels = {test::kernel("k", 1, {0}, {0})};
  const Result<Checkpoints> found = find_checkpoints(t, 1);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kUnsupported);
}

// Any trace gives none, or one that is valid.
TEST(Checkpointing, IsValidOfRandomTraces) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Trace t = test::random_trace(seed);
    if (!validate_trace(t, "random")) continue;
    if (const Result<Checkpoints> found = find_checkpoints(t, 1); found) {
      const Status valid = validate_trace(checkpointed(t, *found), "with");
      EXPECT_TRUE(valid) << seed << ": " << valid.error().message;
    }
  }
}

}  // namespace
}  // namespace spillway
