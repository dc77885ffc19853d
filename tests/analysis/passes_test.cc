// Turns of steps whose lifetimes are worked out by hand.
#include "analysis/passes.h"

#include <gtest/gtest.h>

#include "analysis/layered_step.h"

namespace spillway {
namespace {

std::vector<Pass> passes_of(const Trace& trace) {
  return find_passes(trace, analyze_vitality(trace));
}

// Six layers of two kernels; the loss is kernel 12, which the first kernel of the backward pass
// follows.
TEST(Passes, TurnBehindTheLoss) {
  const std::vector<Pass> passes = passes_of(test::layered_step(6));
  ASSERT_EQ(passes.size(), 1U);
  EXPECT_EQ(passes[0].begin, 0U);
  EXPECT_EQ(passes[0].turn, 13U);
  EXPECT_EQ(passes[0].end, 12U + 1 + 6 + 6);
}

TEST(Passes, AreTwoOfTwoSteps) {
  Trace two = test::layered_step(6);
  const Trace one = two;
  const auto kernels = static_cast<KernelIndex>(one.kernels.size());
  for (Kernel kernel : one.kernels) {
    for (auto* const operands : {&kernel.reads, &kernel.writes}) {
      for (TensorId& id : *operands) {
        id += one.tensors[id].persistent ? 0U : static_cast<TensorId>(one.tensors.size());
      }
    }
    two.kernels.push_back(std::move(kernel));
  }
  two.tensors.insert(two.tensors.end(), one.tensors.begin(), one.tensors.end());
  const std::vector<Pass> passes = passes_of(two);
  ASSERT_EQ(passes.size(), 2U);
  EXPECT_EQ(passes[0].turn, 13U);
  EXPECT_GE(passes[1].begin, 19U) << "the first backward pass has ended";
  EXPECT_LE(passes[1].begin, kernels) << "and the second forward pass not begun";
  EXPECT_EQ(passes[0].end, passes[1].begin);
  EXPECT_EQ(passes[1].turn, kernels + 13U);
  EXPECT_EQ(passes[1].end, 2 * kernels);
}

// A model that only computes hands each result on.
TEST(Passes, AreNoneWithoutABackwardPass) {
  Trace t;
  t.tensors.push_back({100, true, false});
  for (TensorId i = 0; i < 20; ++i) {
    t.tensors.push_back({100, false, false});
    t.kernels.push_back(test::kernel("k", 1, {i}, {i + 1}));
  }
  EXPECT_TRUE(passes_of(t).empty());
}

}  // namespace
}  // namespace spillway
