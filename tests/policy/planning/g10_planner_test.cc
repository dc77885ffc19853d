// Algorithm 1 of G10, and the plan made of it, worked by hand in pages and slots of 10 ns.
#include "policy/planning/g10_planner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analysis/vitality.h"
#include "policy/page_machine.h"

namespace spillway::g10_planner_test {
namespace {

using test::in_pages;
using test::intermediate;
using test::kPages;
using test::page_machine;
using test::trace_of_uses;
using test::weight;
using testing::ElementsAre;
using testing::IsEmpty;

// "tensor to tier, gone after slot a, back in slot b", in the order in which they were chosen.
std::vector<std::string> describe(const EvictionSchedule& schedule, const Vitality& vitality) {
  std::vector<std::string> lines;
  for (const PlannedPeriod& planned : schedule.periods) {
    lines.push_back(fmt::format("{} to {}, {}-{}", vitality.periods[planned.period].tensor,
                                name_of(planned.to), planned.evicted, planned.fetch));
  }
  return lines;
}

struct Scheduled {
  Vitality vitality;
  EvictionSchedule schedule;
};
Scheduled schedule(const Trace& trace, const Machine& machine, const G10Options& options) {
  Scheduled made{analyze_vitality(trace), {}};
  made.schedule =
      schedule_evictions(trace, made.vitality, machine, options, test::kernel_times(trace));
  return made;
}
const G10Options kStorageOnly{.uses_host = false};

// Four tensors lie idle under a peak: X (20 pages), Y (30) and W (10) from kernel 0 to 9, Z (10)
// from 0 to 4. M (30) is alive in kernels 3 to 6.
//   pressure: 70 70 70 100 100 90 90 60 60 60
enum : TensorId { X, Y, W, Z, M };
Trace figure7_trace() {
  return trace_of_uses(
      {intermediate(20), intermediate(30), intermediate(10), intermediate(10), intermediate(30)},
      {{X, Y, W, Z}, {}, {}, {M}, {Z, M}, {M}, {M}, {}, {}, {X, Y, W}});
}

// Storage moves 10 pages a slot each way. Capacity 75: the excess is 25 25 15 15 in slots 3 to 6.
//   W: leaves in slot 1, comes back in slot 8, so slots 2 to 7 are relieved. Benefit 4 x 10 pages
//      of excess, cost 10 pages: 4.
//   X: leaves in 1-2, comes in 7-8: relieves 3 to 6. Benefit 20 + 20 + 15 + 15 = 70, cost 20: 3.5.
//   Y: leaves in 1-3, comes in 6-8: relieves 4 and 5. Benefit 25 + 15 = 40, cost 30: 1.33.
//   Z: leaves in 1, comes in 3: relieves 2, where nothing is above the capacity: 0.
// So W goes first, although X has the larger benefit. It has taken storage's slots 1 and 8, so:
//   X: leaves in 2-3, comes in 6-7: relieves 4 and 5, excess now 15 and 5: 20 / 20 = 1.
//   Y: leaves in 2-4, comes in 5-7: relieves nothing.
// X goes second, and then nothing helps: slots 3 (90) and 6 (80) stay above 75.
TEST(Algorithm1, Figure7TheBestBenefitForItsCostGoesFirst) {
  const Scheduled made = schedule(figure7_trace(), page_machine(75), kStorageOnly);
  EXPECT_THAT(describe(made.schedule, made.vitality),
              ElementsAre("2 to storage, 1-8", "0 to storage, 3-6"));
  EXPECT_THAT(in_pages(made.schedule.pressure_bytes),
              ElementsAre(70, 70, 60, 90, 70, 60, 80, 50, 60, 60));
  EXPECT_FALSE(made.schedule.fits);
}

// Capacity 90: 10 pages above it in slots 3 and 4, none elsewhere. X: 20 / 20 = 1; Y relieves only
// slot 4: 10 / 30; W: 20 / 10 = 2. W alone brings the pressure to exactly the capacity.
TEST(Algorithm1, StopsAsSoonAsThePressureIsWithinTheCapacity) {
  const Scheduled made = schedule(figure7_trace(), page_machine(90), kStorageOnly);
  EXPECT_THAT(describe(made.schedule, made.vitality), ElementsAre("2 to storage, 1-8"));
  EXPECT_THAT(in_pages(made.schedule.pressure_bytes),
              ElementsAre(70, 70, 60, 90, 90, 80, 80, 50, 60, 60));
  EXPECT_TRUE(made.schedule.fits);
}

TEST(Algorithm1, EvictsNothingWhereEverythingFits) {
  const Trace trace = figure7_trace();
  const Scheduled made = schedule(trace, page_machine(100), {});
  EXPECT_THAT(made.schedule.periods, IsEmpty());
  EXPECT_TRUE(made.schedule.fits);
  const Plan plan = plan_g10(trace, made.vitality, page_machine(100), {});
  EXPECT_TRUE(plan.fits);
  EXPECT_EQ(plan.to_host_bytes + plan.to_storage_bytes, 0U);
  EXPECT_EQ(plan.estimated_ns, 100);
  for (const auto& steps : plan.before) {
    for (const PlanAction& action : steps) {
      EXPECT_TRUE(action.step == PlanStep::kAlloc || action.step == PlanStep::kFree);
    }
  }
}

// Tensors of 10 pages idle from kernel 0 to 9, and one of 30 in kernels 3 to 6.
Trace alike(TensorId count) {
  std::vector<Tensor> tensors(count, intermediate(10));
  tensors.push_back(intermediate(30));
  std::vector<TensorId> idle;
  for (TensorId id = 0; id < count; ++id) idle.push_back(id);
  const std::vector<TensorId> peak{count};
  return trace_of_uses(std::move(tensors), {idle, {}, {}, peak, peak, peak, peak, {}, {}, idle});
}

// Lines 7 to 17: the first takes storage's slot 1, so the next would leave storage only in slot 2,
// later than on idle storage: it goes to host memory, at 40 pages a slot. So does the third.
TEST(Algorithm1, HostMemoryWhenStorageIsBusy) {
  const Scheduled made = schedule(alike(3), page_machine(30), {});
  EXPECT_THAT(describe(made.schedule, made.vitality),
              ElementsAre("0 to storage, 1-8", "1 to host, 1-8", "2 to host, 1-8"));
  EXPECT_TRUE(made.schedule.fits);
}

// Host memory holds one of them: the third goes to storage, late as it is.
TEST(Algorithm1, NotHostMemoryThatIsFullDuringThePeriod) {
  Machine machine = page_machine(30);
  machine.host.capacity_bytes = 19 * kPages;
  const Scheduled made = schedule(alike(3), machine, {});
  EXPECT_THAT(describe(made.schedule, made.vitality),
              ElementsAre("0 to storage, 1-8", "1 to host, 1-8", "2 to storage, 2-7"));
}

TEST(Algorithm1, OnlyTheTiersThatThereAre) {
  const Scheduled host = schedule(alike(3), page_machine(30), {.uses_storage = false});
  EXPECT_THAT(describe(host.schedule, host.vitality),
              ElementsAre("0 to host, 1-8", "1 to host, 1-8", "2 to host, 1-8"));
  const Scheduled storage = schedule(alike(2), page_machine(30), kStorageOnly);
  EXPECT_THAT(describe(storage.schedule, storage.vitality),
              ElementsAre("0 to storage, 1-8", "1 to storage, 2-7"));
}

// Host memory that one period has used is free again for another: two tensors that lie idle one
// after the other, each beside a twin that takes storage first.
TEST(Algorithm1, HostMemoryIsFullOnlyWhileItIsUsed) {
  const Trace trace =
      trace_of_uses({intermediate(10), intermediate(10), intermediate(10), intermediate(10),
                     intermediate(30), intermediate(30)},
                    {{0, 1}, {}, {4}, {4}, {}, {0, 1}, {2, 3}, {}, {5}, {5}, {}, {2, 3}});
  Machine machine = page_machine(30);
  machine.host.capacity_bytes = 10 * kPages;
  const Scheduled made = schedule(trace, machine, {});
  EXPECT_THAT(
      describe(made.schedule, made.vitality),
      ElementsAre("0 to storage, 1-4", "1 to host, 1-4", "2 to storage, 7-10", "3 to host, 7-10"));
  EXPECT_TRUE(made.schedule.fits);
}

// A weight of 10 pages used by kernels 3 and 4; a peak of 25 in kernels 8 and 9; capacity 30. Its
// one period runs from kernel 5 into the next iteration's kernel 2 (slot 12): out in slot 5, back
// in slot 12, relieving 6 to 9 and, around the ring, 0 and 1.
Trace wrapping_trace() {
  return trace_of_uses({weight(10), intermediate(25)},
                       {{}, {}, {}, {0}, {0}, {}, {}, {}, {1}, {1}});
}

TEST(Algorithm1, WeightsLeaveFromOneIterationIntoTheNext) {
  const Scheduled made = schedule(wrapping_trace(), page_machine(30), kStorageOnly);
  EXPECT_THAT(describe(made.schedule, made.vitality), ElementsAre("0 to storage, 5-12"));
  EXPECT_THAT(in_pages(made.schedule.pressure_bytes),
              ElementsAre(0, 0, 10, 10, 10, 10, 0, 0, 25, 25));
  EXPECT_TRUE(made.schedule.fits);
}

// The eager prefetch goes back to slot 10 and stops before slot 9, where the peak is: the weight is
// asked for before kernel 0.
TEST(PlanG10, WeightsAreFetchedInTheNextIteration) {
  const Trace trace = wrapping_trace();
  const Plan plan = plan_g10(trace, analyze_vitality(trace), page_machine(30), kStorageOnly);
  EXPECT_EQ(render_program(plan, trace),
            "free(tensor1);\n"
            "prefetch(tensor0, 40960);\n"
            "// kernel 0, 10 ns\nk0();\n"
            "// kernel 1, 10 ns\nk1();\n"
            "// kernel 2, 10 ns\nk2();\n"
            "// kernel 3, 10 ns\nk3(tensor0);\n"
            "// kernel 4, 10 ns\nk4(tensor0);\n"
            "pre_evict(tensor0, 40960, storage);\n"
            "// kernel 5, 10 ns\nk5();\n"
            "// kernel 6, 10 ns\nk6();\n"
            "// kernel 7, 10 ns\nk7();\n"
            "alloc(&tensor1, 102400);\n"
            "// kernel 8, 10 ns\nk8(tensor1);\n"
            "// kernel 9, 10 ns\nk9(tensor1);\n");
  EXPECT_EQ(plan.to_storage_bytes, 10 * kPages);
  EXPECT_EQ(plan.to_host_bytes, 0U);
  EXPECT_EQ(plan.estimated_ns, 100);
}

// Where one tensor dies as another is born, what gives memory comes before what takes it.
TEST(PlanG10, FreesComeBeforeAllocations) {
  const Trace trace = trace_of_uses({intermediate(1), intermediate(1)}, {{1}, {1}, {0}, {0}});
  const Plan plan = plan_g10(trace, analyze_vitality(trace), page_machine(10), {});
  ASSERT_EQ(plan.before[2].size(), 2U);
  EXPECT_EQ(plan.before[2][0].step, PlanStep::kFree);
  EXPECT_EQ(plan.before[2][0].tensor, 1U);
  EXPECT_EQ(plan.before[2][1].step, PlanStep::kAlloc);
  EXPECT_EQ(plan.before[2][1].tensor, 0U);
}

}  // namespace
}  // namespace spillway::g10_planner_test
