// FlashNeuron's linear selection, its dry run over contiguous memory, and where it cannot run.
#include "policy/flashneuron.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "policy/page_machine.h"

namespace spillway::flashneuron_test {
namespace {

using test::intermediate;
using test::kernel;
using test::kPages;
using test::page_machine;
using test::pages_per_ns;
using test::trace_of_uses;
using test::weight;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Three layers forward, a loss, and back. Pages of the operands of each kernel: 7, 7, 6, 4, 9, 11,
// 8, 2. The backward pass uses A0, A1 and A2 again.
enum : TensorId { W, A0, A1, A2, A3, dA3, dA2, dA1, dW };
Trace training() {
  Trace trace;
  trace.tensors = {weight(1),       intermediate(2), intermediate(4),
                   intermediate(3), intermediate(2), intermediate(2),
                   intermediate(3), intermediate(4), intermediate(1)};
  trace.kernels = {
      kernel("conv(F)", 10, {A0, W}, {A1}),      kernel("relu(F)", 10, {A1}, {A2}),
      kernel("fc(F)", 10, {A2, W}, {A3}),        kernel("CrossEntropyLoss", 10, {A3}, {dA3}),
      kernel("fc(B)", 10, {dA3, A2, W}, {dA2}),  kernel("relu(B)", 10, {dA2, A1}, {dA1}),
      kernel("conv(B)", 10, {dA1, A0, W}, {dW}), kernel("sgd", 10, {W, dW}, {W})};
  return trace;
}

std::vector<TensorId> selected(Bytes device_pages) {
  const Trace trace = training();
  return select_linearly(trace, analyze_vitality(trace), page_machine(device_pages)).value();
}

TEST(ForwardEnd, IsTheLossOrElseThePeak) {
  Trace trace = training();
  EXPECT_EQ(forward_end(trace, analyze_vitality(trace)), 3U);
  trace.kernels[3].name = "criterion";
  // Alive: 7, 10, 12, 14, 15, 14, 8, 2.
  EXPECT_EQ(forward_end(trace, analyze_vitality(trace)), 4U);
}

// Weights take 1 page and the largest kernel 11; what remains of A0, A1 and A2 (9 pages) must fit
// into the rest, taken away in the order of their making.
TEST(LinearSelection, UntilTheRestFits) {
  EXPECT_THAT(selected(22), IsEmpty());            // room for 10
  EXPECT_THAT(selected(20), ElementsAre(A0));      // for 8: 7 remain
  EXPECT_THAT(selected(18), ElementsAre(A0, A1));  // for 6: 7 is too much, 3 remain
  EXPECT_THAT(selected(16), ElementsAre(A0, A1));
  EXPECT_THAT(selected(13), ElementsAre(A0, A1, A2));  // for 1
}

TEST(LinearSelection, WeightsAndTheLargestKernelMustFit) {
  const Trace trace = training();
  const Result<std::vector<TensorId>> result =
      select_linearly(trace, analyze_vitality(trace), page_machine(12));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kCannotRun);
  EXPECT_THAT(result.error().message, HasSubstr("weights"));

  Trace heavy = training();
  heavy.tensors[W].bytes = 100 * kPages;
  const Result<std::unique_ptr<Policy>> made = make_flashneuron(heavy, page_machine(90), {});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::kCannotRun);
}

// 20 pages: A0 leaves after kernel 0, its last use in the forward pass, and comes back for kernel 6
// only: before, the largest piece of free memory is never larger than the largest kernel (11
// pages without the weights). Reading its 2 pages takes 10 ns that nobody hides.
TEST(PlanFlashNeuron, OffloadsAfterTheForwardUseAndFetchesForTheBackwardUse) {
  Machine machine = page_machine(20);
  machine.storage.read_bytes_per_s = pages_per_ns(0.2);
  const Trace trace = training();
  const Plan plan = plan_flashneuron(trace, machine, {}).value();
  EXPECT_EQ(plan.to_storage_bytes, 2 * kPages);
  EXPECT_EQ(plan.estimated_ns, 90);
  const std::string program = render_program(plan, trace);
  EXPECT_THAT(program, HasSubstr("pre_evict(tensor1, 8192, storage);\n"
                                 "alloc(&tensor3, 12288);\n"
                                 "// kernel 1,"));
  EXPECT_THAT(program, HasSubstr("prefetch(tensor1, 8192);\n"
                                 "alloc(&tensor8, 4096);\n"
                                 "// kernel 6,"));
}

// What the last kernel gives back stands before the first one, ahead of what that one takes.
TEST(PlanFlashNeuron, GivesBackBeforeItTakesAroundTheRing) {
  const Trace trace = training();
  const Plan plan = plan_flashneuron(trace, page_machine(20), {}).value();
  const auto gives = [](const PlanAction& action) {
    return action.step == PlanStep::kFree || action.step == PlanStep::kPreEvict;
  };
  for (const auto& steps : plan.before) {
    EXPECT_TRUE(std::is_partitioned(steps.begin(), steps.end(), gives));
  }
  EXPECT_EQ(render_program(plan, trace).find("free(tensor8);\nalloc(&tensor1, 8192);\n"), 0U);
}

// Writing A0 takes 1000 ns from the end of kernel 0 at 10: the loss kernel cannot begin at 30.
TEST(PlanFlashNeuron, TheBackwardPassWaitsForTheOffloads) {
  Machine machine = page_machine(20);
  machine.storage.write_bytes_per_s = pages_per_ns(0.002);
  machine.storage.read_bytes_per_s = pages_per_ns(0.2);
  const Plan plan = plan_flashneuron(training(), machine, {}).value();
  EXPECT_EQ(plan.estimated_ns, 80 + (1010 - 30) + 10);
}

// B lies in the middle of 10 pages when A and C's place are free: 3 + 4 pages, and D needs 5.
TEST(PlanFlashNeuron, FragmentsUntilItCannotRun) {
  enum : TensorId { A, B, D };
  const Trace trace = trace_of_uses({intermediate(3), intermediate(3), intermediate(5)},
                                    {{A}, {B}, {A}, {D}, {D}, {B}});
  const Result<Plan> stuck = plan_flashneuron(trace, page_machine(10), {});
  ASSERT_FALSE(stuck.has_value());
  EXPECT_EQ(stuck.error().code, ErrorCode::kCannotRun);
  EXPECT_THAT(stuck.error().message, HasSubstr("kernel 3 (k3) needs 20 KiB in one piece"));
  EXPECT_THAT(stuck.error().message, HasSubstr("only 16 KiB"));
  EXPECT_TRUE(plan_flashneuron(trace, page_machine(11), {}).has_value());
}

// Work space of 5 pages and of 4, in different kernels: one range of 5 serves both. Without it the
// 9 pages hold the weight, A and B (2 pages).
TEST(PlanFlashNeuron, KernelsShareOneWorkSpace) {
  enum : TensorId { kWeight, A, B, kWork5, kWork4 };
  Trace trace;
  trace.tensors = {weight(1), intermediate(1), intermediate(1), intermediate(5), intermediate(4)};
  trace.kernels = {kernel("k0", 10, {kWeight}, {A, kWork5}), kernel("k1", 10, {A}, {B, kWork4}),
                   kernel("k2", 10, {B}, {})};
  EXPECT_TRUE(plan_flashneuron(trace, page_machine(9), {}).has_value());
  const Plan plan = plan_flashneuron(trace, page_machine(9), {}).value();
  EXPECT_THAT(render_program(plan, trace), HasSubstr("alloc(&tensor4, 16384);\n// kernel 1,"));
}

// The range is kept for good: the second kernel's 6 pages would fit beside the weight, but not
// beside the weight and 5 pages of work space that it does not use.
TEST(PlanFlashNeuron, TheWorkSpaceIsNeverLent) {
  enum : TensorId { kWeight, kWork, A, B };
  Trace trace;
  trace.tensors = {weight(1), intermediate(5), intermediate(3), intermediate(3)};
  trace.kernels = {kernel("k0", 10, {kWeight}, {kWork}), kernel("k1", 10, {}, {A, B}),
                   kernel("k2", 10, {A, B}, {})};
  EXPECT_FALSE(plan_flashneuron(trace, page_machine(11), {}).has_value());
  EXPECT_TRUE(plan_flashneuron(trace, page_machine(12), {}).has_value());
}

}  // namespace
}  // namespace spillway::flashneuron_test
