// A plan's time, worked by hand: kernels of 10 ns, pages, and a link in round numbers.
#include "policy/planning/plan_estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/page_machine.h"

namespace spillway::plan_estimate_test {
namespace {

using test::intermediate;
using test::page_machine;
using test::pages_per_ns;
using test::trace_of_uses;
using testing::ElementsAre;

// X (10 pages) by kernels 0 and 5, M (10 pages) by 2 and 3.
enum : TensorId { X, M };
Trace two_tensors() {
  return trace_of_uses({intermediate(10), intermediate(10)}, {{X}, {}, {M}, {M}, {}, {X}});
}

// X leaves during kernel 1 and is asked for again before kernel 4.
Plan there_and_back(Tier tier) {
  Plan plan;
  plan.before = {{{PlanStep::kFree, X}, {PlanStep::kAlloc, X}},
                 {{PlanStep::kPreEvict, X, tier}},
                 {{PlanStep::kAlloc, M}},
                 {},
                 {{PlanStep::kFree, M}, {PlanStep::kPrefetch, X}},
                 {}};
  return plan;
}

// Room for one and a half of them, 1 page a nanosecond each way.
Machine machine() {
  Machine made = page_machine(15);
  made.link.to_device_bytes_per_s = made.link.from_device_bytes_per_s = pages_per_ns(1);
  return made;
}

TEST(EstimatePlan, WhatFitsTakesAsLongAsItsKernels) {
  Plan nothing;
  nothing.before.resize(6);
  const PlanEstimate estimate = estimate_plan(nothing, two_tensors(), page_machine(20));
  EXPECT_EQ(estimate.iteration_ns, 60);
  EXPECT_THAT(estimate.slot_ns, ElementsAre(10, 10, 10, 10, 10, 10));
}

// Out 10-20 beside kernel 1, back 40-50 beside kernel 4.
TEST(EstimatePlan, CopiesBesideKernelsAreHidden) {
  for (const Tier tier : {Tier::kHost, Tier::kStorage}) {
    const PlanEstimate estimate = estimate_plan(there_and_back(tier), two_tensors(), machine());
    EXPECT_EQ(estimate.iteration_ns, 60);
    EXPECT_THAT(estimate.slot_ns, ElementsAre(10, 10, 10, 10, 10, 10));
  }
}

// Back 40-60 at half the speed: kernel 5 waits for 10 ns.
TEST(EstimatePlan, AKernelWaitsForItsFetch) {
  Machine slow = machine();
  slow.link.to_device_bytes_per_s = pages_per_ns(0.5);
  const PlanEstimate estimate = estimate_plan(there_and_back(Tier::kHost), two_tensors(), slow);
  EXPECT_EQ(estimate.iteration_ns, 70);
  EXPECT_THAT(estimate.slot_ns, ElementsAre(10, 10, 10, 10, 10, 20));
}

// Out 10-30: M of kernel 2 has to wait for the room until 30.
TEST(EstimatePlan, AKernelWaitsForRoom) {
  Machine slow = machine();
  slow.link.from_device_bytes_per_s = pages_per_ns(0.5);
  const PlanEstimate estimate = estimate_plan(there_and_back(Tier::kHost), two_tensors(), slow);
  EXPECT_EQ(estimate.iteration_ns, 70);
  EXPECT_THAT(estimate.slot_ns, ElementsAre(10, 10, 20, 10, 10, 10));
}

// Storage is no faster than the link, and the link no faster than storage: writing at 0.4 takes
// 25 ns instead of 10, reading at 0.2 takes 50.
TEST(EstimatePlan, StorageHasItsOwnSpeed) {
  Machine slow = machine();
  slow.storage.write_bytes_per_s = pages_per_ns(0.4);
  slow.storage.read_bytes_per_s = pages_per_ns(0.2);
  EXPECT_THAT(estimate_plan(there_and_back(Tier::kStorage), two_tensors(), slow).slot_ns,
              ElementsAre(10, 10, 25, 10, 10, 50));
  EXPECT_EQ(estimate_plan(there_and_back(Tier::kHost), two_tensors(), slow).iteration_ns, 60);
  slow.link.to_device_bytes_per_s = pages_per_ns(0.1);
  EXPECT_THAT(estimate_plan(there_and_back(Tier::kStorage), two_tensors(), slow).slot_ns,
              ElementsAre(10, 10, 25, 10, 10, 100));
}

// X and Y (10 pages each) follow each other: out 10-20 and 20-30, so that M (20 pages) waits until
// 30; back 50-60 and 60-70, so that kernel 5, due at 60, waits for Y.
TEST(EstimatePlan, CopiesInOneDirectionQueue) {
  enum : TensorId { kX, kY, kM };
  const Trace trace = trace_of_uses({intermediate(10), intermediate(10), intermediate(20)},
                                    {{kX, kY}, {}, {kM}, {kM}, {}, {kX, kY}});
  Plan plan;
  plan.before = {{{PlanStep::kFree, kX}, {PlanStep::kFree, kY}},
                 {{PlanStep::kPreEvict, kX, Tier::kHost}, {PlanStep::kPreEvict, kY, Tier::kHost}},
                 {},
                 {},
                 {{PlanStep::kFree, kM}, {PlanStep::kPrefetch, kX}, {PlanStep::kPrefetch, kY}},
                 {}};
  Machine two = machine();
  two.device.capacity_bytes = 20 * test::kPages;
  EXPECT_THAT(estimate_plan(plan, trace, two).slot_ns, ElementsAre(10, 10, 20, 10, 10, 20));
}

// Nobody has asked for X when kernel 5 begins: 50-60.
TEST(EstimatePlan, WhatNobodyFetchedIsFetchedWhenNeeded) {
  Plan plan = there_and_back(Tier::kHost);
  plan.before[4].pop_back();
  EXPECT_THAT(estimate_plan(plan, two_tensors(), machine()).slot_ns,
              ElementsAre(10, 10, 10, 10, 10, 20));
}

// Asked for before kernel 2 while X is still leaving (10-20) and M has the room: it comes when M
// has died, 40-50, as if it had been asked for then.
TEST(EstimatePlan, AFetchWaitsForRoom) {
  Plan plan = there_and_back(Tier::kHost);
  plan.before[4].pop_back();
  plan.before[3].push_back({PlanStep::kPrefetch, X});
  EXPECT_THAT(estimate_plan(plan, two_tensors(), machine()).slot_ns,
              ElementsAre(10, 10, 10, 10, 10, 10));
}

// Without evictions 5 pages have to make way on the spot, 5 ns.
TEST(EstimatePlan, APlanThatMakesNoRoomWaits) {
  Plan plan = there_and_back(Tier::kHost);
  plan.before[1].clear();
  plan.before[4].pop_back();
  EXPECT_THAT(estimate_plan(plan, two_tensors(), machine()).slot_ns,
              ElementsAre(10, 10, 15, 10, 10, 10));
}

// Kernel 1 uses X after all: it stays, and the copy was for nothing.
TEST(EstimatePlan, WhatIsNeededWhileItLeavesStays) {
  Trace trace = two_tensors();
  trace.kernels[1].reads = {X};
  EXPECT_THAT(estimate_plan(there_and_back(Tier::kHost), trace, page_machine(20)).slot_ns,
              ElementsAre(10, 10, 10, 10, 10, 10));
}

}  // namespace
}  // namespace spillway::plan_estimate_test
