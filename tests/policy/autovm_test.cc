// AutoVM's rules on a network worked out by hand: what leaves, when it comes back, what stays.
#include "policy/autovm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "policy/page_machine.h"
#include "policy/planning/plan_estimate.h"
#include "trace/generate.h"

namespace spillway::autovm_test {
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
using testing::Not;

// Three layers forward, a loss, and back (as the thesis's figure 3.1). Pages of the operands of
// each kernel: 7, 7, 6, 4, 9, 11, 8, 2; alive: 7, 10, 12, 14, 15, 14, 8, 2.
enum : TensorId { W, A0, A1, A2, A3, dA3, dA2, dA1, dW };
constexpr KernelIndex kLoss = 3;
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

std::vector<Offload> offloads(const Trace& trace, KernelIndex loss, Bytes pages,
                              std::uint32_t distance) {
  return offloads_of(trace, analyze_vitality(trace), loss, pages * kPages, distance);
}

std::vector<TensorId> leaving(Bytes pages, std::uint32_t distance) {
  std::vector<TensorId> ids;
  for (const Offload& each : offloads(training(), kLoss, pages, distance)) {
    ids.push_back(each.tensor);
  }
  return ids;
}

// Between the last use forward and the first use backward lie 5, 3 and 1 kernels.
TEST(AutoVmOffloads, LargeAndLongUnused) {
  EXPECT_THAT(leaving(0, 0), ElementsAre(A2, A1, A0));  // as the backward pass needs them
  EXPECT_THAT(leaving(0, 2), ElementsAre(A1, A0));
  EXPECT_THAT(leaving(0, 5), ElementsAre(A0));
  EXPECT_THAT(leaving(0, 6), IsEmpty());
  EXPECT_THAT(leaving(3, 0), ElementsAre(A2, A1));
  EXPECT_THAT(leaving(4, 0), ElementsAre(A1));
  EXPECT_THAT(leaving(5, 0), IsEmpty());
}

// A1 is used last by relu forward and first by relu backward.
TEST(AutoVmOffloads, FromTheLastUseForwardToTheFirstBackward) {
  EXPECT_THAT(offloads(training(), kLoss, 4, 0),
              ElementsAre(Offload{.tensor = A1, .after = 1, .needed = 5, .last_use = 5}));
}

std::vector<std::optional<KernelIndex>> prefetches(const Trace& trace, KernelIndex loss,
                                                   Machine machine, const AutoVmOptions& options) {
  std::vector<Offload> made = offloads(trace, loss, 0, options.least_distance);
  schedule_prefetches(trace, analyze_vitality(trace), loss, machine, options, made);
  std::vector<std::optional<KernelIndex>> starts;
  for (const Offload& each : made) starts.push_back(each.prefetch);
  return starts;
}

constexpr AutoVmOptions kByOperands{.least_bytes = 0,
                                    .least_distance = 0,
                                    .timing = PrefetchTiming::kEarly,
                                    .working_set = WorkingSet::kOperands};

// A2 is needed by the first kernel of the backward pass: nothing is left to prefetch beside. A1 (4
// pages) beside kernel 4 (9) takes 13 pages. A0 (2) beside kernel 5 (11) takes 13, and beside
// kernel 4, where A1 is by then, 15.
TEST(AutoVmPrefetches, AsEarlyAsWorkingSetsLeaveRoom) {
  const auto starts = [](Bytes device_pages) {
    return prefetches(training(), kLoss, page_machine(device_pages), kByOperands);
  };
  EXPECT_THAT(starts(12), ElementsAre(std::nullopt, std::nullopt, std::nullopt));
  EXPECT_THAT(starts(13), ElementsAre(std::nullopt, 4, 5));
  EXPECT_THAT(starts(14), ElementsAre(std::nullopt, 4, 5));
  EXPECT_THAT(starts(15), ElementsAre(std::nullopt, 4, 4));
}

// Without A2, which stays: 15 pages are alive during kernel 4, 9 of them without A1 and A0, and 14
// during kernel 5, 12 without A0.
TEST(AutoVmPrefetches, WhatStaysTakesRoomToo) {
  AutoVmOptions options = kByOperands;
  options.least_distance = 2;
  options.working_set = WorkingSet::kResident;
  const auto starts = [&](Bytes device_pages) {
    return prefetches(training(), kLoss, page_machine(device_pages), options);
  };
  EXPECT_THAT(starts(12), ElementsAre(std::nullopt, std::nullopt));
  EXPECT_THAT(starts(13), ElementsAre(4, std::nullopt));
  EXPECT_THAT(starts(14), ElementsAre(4, 5));
}

// The large one is needed by kernel 6 and has room from kernel 4 on; the small one is needed by
// kernel 7 and would have room from kernel 3 on.
TEST(AutoVmPrefetches, WhatIsNeededFirstComesFirst) {
  enum : TensorId { kLarge, kSmall, kThree, kFour };
  const Trace trace =
      trace_of_uses({intermediate(5), intermediate(1), intermediate(9), intermediate(5)},
                    {{kLarge}, {kSmall}, {}, {kThree}, {kFour}, {kFour}, {kLarge}, {kSmall}});
  EXPECT_THAT(prefetches(trace, 2, page_machine(11), kByOperands), ElementsAre(4, 4));
}

// At a fifth of a page a nanosecond A1 takes 20 ns, of which only kernel 4 is there to hide 10; A0
// takes 10 ns, beside kernel 5.
TEST(AutoVmPrefetches, AsLateAsTheyHide) {
  AutoVmOptions options = kByOperands;
  options.timing = PrefetchTiming::kLate;
  Machine machine = page_machine(15);
  machine.link.to_device_bytes_per_s = pages_per_ns(0.2);
  EXPECT_THAT(prefetches(training(), kLoss, machine, options), ElementsAre(std::nullopt, 4, 5));
  machine.device.capacity_bytes = 12 * kPages;  // neither fits beside the kernel before
  EXPECT_THAT(prefetches(training(), kLoss, machine, options),
              ElementsAre(std::nullopt, std::nullopt, std::nullopt));
}

// Figures 3.4 and 3.5: the copy for kernel 7 takes four kernels and begins at 3; the one for kernel
// 6 takes one and would wait behind it. It begins at 3 as well, if there is room: kernels 3 and 4
// use 3 pages, and both tensors have 5.
TEST(AutoVmPrefetches, TheOrderOfNeedIsTheOrderOfCopies) {
  enum : TensorId { kSoon, kLater, kBeside };
  const Trace trace =
      trace_of_uses({intermediate(1), intermediate(4), intermediate(3)},
                    {{kSoon}, {kLater}, {}, {kBeside}, {kBeside}, {}, {kSoon}, {kLater}});
  AutoVmOptions options = kByOperands;
  options.timing = PrefetchTiming::kLate;
  Machine machine = page_machine(8);
  machine.link.to_device_bytes_per_s = pages_per_ns(0.1);
  EXPECT_THAT(prefetches(trace, 2, machine, options), ElementsAre(3, 3));
  machine.device.capacity_bytes = 7 * kPages;
  EXPECT_THAT(prefetches(trace, 2, machine, options), ElementsAre(5, 3));
}

// A0 leaves after kernel 0 and A1 after kernel 1. A1 comes back before kernel 4 and A0 before
// kernel 5, where 14 pages are then alive.
TEST(AutoVmPlan, TheInstrumentedProgram) {
  AutoVmOptions options = kByOperands;
  options.least_distance = 2;
  const Trace trace = training();
  const Plan plan = plan_autovm(trace, page_machine(13), options);
  const std::string program = render_program(plan, trace);
  EXPECT_THAT(program, HasSubstr("pre_evict(tensor1, 8192, host);\n"
                                 "alloc(&tensor3, 12288);\n"
                                 "// kernel 1,"));
  EXPECT_THAT(program, HasSubstr("pre_evict(tensor2, 16384, host);\n"
                                 "alloc(&tensor4, 8192);\n"
                                 "// kernel 2,"));
  EXPECT_THAT(program, HasSubstr("free(tensor4);\n"
                                 "alloc(&tensor6, 12288);\n"
                                 "prefetch(tensor2, 16384);\n"
                                 "// kernel 4,"));
  EXPECT_THAT(program, HasSubstr("prefetch(tensor1, 8192);\n// kernel 5,"));
  EXPECT_THAT(program, Not(HasSubstr("pre_evict(tensor0")));
  EXPECT_EQ(plan.to_host_bytes, 6 * kPages);
  EXPECT_FALSE(plan.fits);
  EXPECT_TRUE(plan_autovm(trace, page_machine(14), options).fits);
}

TEST(AutoVmPlan, NothingLeavesWhereEverythingFits) {
  const Trace trace = training();
  const Plan plan = plan_autovm(trace, page_machine(15), kByOperands);
  EXPECT_EQ(plan.to_host_bytes, 0U);
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.estimated_ns, 80);
  const std::string program = render_program(plan, trace);
  EXPECT_THAT(program, Not(HasSubstr("pre_evict")));
  EXPECT_THAT(program, HasSubstr("alloc(&tensor2, 16384);\n// kernel 0,"));  // pre-access
}

// The best of all sizes, and the same each time.
TEST(AutoVmPlan, TheThresholdTunesItself) {
  const Trace trace = generate_mlp({.batch_size = 512,
                                    .inputs = 2048,
                                    .width = 1024,
                                    .layers = 6,
                                    .classes = 1000,
                                    .training = {.optimizer = Optimizer::kSgd}});
  Machine machine = page_machine(8000);
  machine.link.to_device_bytes_per_s = machine.link.from_device_bytes_per_s = 12e9;
  const Plan tuned = plan_autovm(trace, machine, AutoVmOptions{});
  std::set<Bytes> sizes{Bytes{1} << 60U};  // nothing leaves
  for (const Tensor& tensor : trace.tensors) sizes.insert(tensor.bytes);
  std::set<TimeNs> times;
  for (const Bytes bytes : sizes) {
    AutoVmOptions options;
    options.least_bytes = bytes;
    times.insert(plan_autovm(trace, machine, options).estimated_ns);
  }
  EXPECT_GT(times.size(), 1U) << "the size has to matter here";
  EXPECT_EQ(tuned.estimated_ns, *times.begin());
  EXPECT_EQ(render_program(tuned, trace),
            render_program(plan_autovm(trace, machine, AutoVmOptions{}), trace));
  EXPECT_GT(tuned.to_host_bytes, 0U);
}

TEST(AutoVmPlan, AThresholdThatIsGivenIsUsed) {
  AutoVmOptions options = kByOperands;
  options.least_bytes = 4 * kPages;
  EXPECT_EQ(plan_autovm(training(), page_machine(13), options).to_host_bytes, 4 * kPages);  // A1
  options.least_bytes = 5 * kPages;
  EXPECT_EQ(plan_autovm(training(), page_machine(13), options).to_host_bytes, 0U);
}

}  // namespace
}  // namespace spillway::autovm_test
