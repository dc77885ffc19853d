// A plan that comes while the program runs: paging before it, the plan's steps after it, and a
// program that does not keep to it.
#include "policy/profiled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "policy/page_machine.h"
#include "policy/untimed_platform.h"

namespace spillway {
namespace {

using test::UntimedPlatform;
using testing::ElementsAre;
using testing::IsEmpty;

// Launches have execution ids that are not their positions.
constexpr ExecutionId kFirst = 40;

class ProfiledTest : public ::testing::Test {
 protected:
  ProfiledTest() {
    for (int i = 0; i < 3; ++i) ids_.push_back(platform_.engine().allocate(kBlockBytes, 0).value());
  }
  static EngineOptions options() {
    EngineOptions made;
    made.device_capacity_bytes = 2 * kBlockBytes;
    made.host_capacity_bytes = kGiB;
    made.storage_capacity_bytes = kGiB;
    return made;
  }
  // One kernel for each entry of `uses`; the tensors are those of ids_, and persistent.
  RecordedIteration iteration(const std::vector<std::vector<TensorId>>& uses) {
    RecordedIteration made;
    made.trace = test::trace_of_uses(std::vector<Tensor>(3, {kBlockBytes, true, false}), uses);
    for (std::uint32_t k = 0; k < uses.size(); ++k) made.executions.push_back(kFirst + k);
    made.allocations = ids_;
    return made;
  }
  void run(std::uint32_t position, TensorId tensor) {
    platform_.run(kFirst + position, {ids_[tensor]});
  }
  // What has been started since the last call.
  std::vector<Cause> causes() {
    std::vector<Cause> made;
    for (; seen_ < platform_.transfers().size(); ++seen_) {
      made.push_back(platform_.transfers()[seen_].cause);
    }
    return made;
  }

  Profiled policy_{"g10"};
  UntimedPlatform platform_{options(), policy_};
  std::vector<AllocationId> ids_;
  std::size_t seen_ = 0;
};

TEST_F(ProfiledTest, PagesUntilThereIsAPlan) {
  for (TensorId t = 0; t < 3; ++t) run(t, t);
  EXPECT_THAT(causes(), ElementsAre(Cause::kEvict));  // the third finds no room
  EXPECT_FALSE(policy_.follows_plan());

  Plan plan;
  plan.before.resize(3);
  plan.before[1] = {{PlanStep::kPreEvict, 2, Tier::kStorage}};
  plan.before[2] = {{PlanStep::kPreEvict, 0, Tier::kHost}, {PlanStep::kPrefetch, 2}};
  policy_.follow(iteration({{0}, {1}, {2}}), plan, Tier::kHost);
  EXPECT_TRUE(policy_.follows_plan());
  EXPECT_EQ(policy_.name(), "g10");
  for (TensorId t = 0; t < 3; ++t) run(t, t);
  EXPECT_THAT(causes(), testing::Contains(Cause::kPreEvict));
  EXPECT_THAT(causes(), IsEmpty());
}

// The steps of what was left out are caught up on; a launch from elsewhere in the iteration carries
// out nothing but its own.
TEST_F(ProfiledTest, LaunchesThatAreLeftOut) {
  Plan plan;
  plan.before.resize(8);
  plan.before[2] = {{PlanStep::kPreEvict, 0, Tier::kHost}};
  plan.before[7] = {{PlanStep::kPreEvict, 1, Tier::kHost}};
  run(0, 0);
  run(1, 1);
  causes();
  policy_.follow(iteration({{0}, {1}, {}, {}, {}, {}, {}, {0}}), plan, Tier::kHost);
  run(0, 0);
  run(2, 1);  // without 1: what was planned before 2 happens
  EXPECT_TRUE(platform_.copied_down(0));
  causes();
  run(0, 0);  // the rest of the iteration, more than a quarter, did not happen
  EXPECT_THAT(causes(), IsEmpty());
  EXPECT_FALSE(platform_.copied_down(1));
}

TEST_F(ProfiledTest, StrangersArePaged) {
  Plan plan;
  plan.before.resize(2);
  policy_.follow(iteration({{0}, {1}}), plan, Tier::kHost);
  platform_.run(3, {ids_[2]});
  run(0, 0);
  run(1, 1);
  EXPECT_THAT(causes(), ElementsAre(Cause::kEvict));
}

// Two tensors that take turns in one allocation: what is planned for the first does not happen to
// the second.
TEST_F(ProfiledTest, TenantsOfOneAllocation) {
  RecordedIteration made;
  made.trace = test::trace_of_uses({{kBlockBytes, false, false}, {kBlockBytes, false, false}},
                                   {{0}, {0}, {1}, {1}});
  made.executions = {kFirst, kFirst + 1, kFirst + 2, kFirst + 3};
  made.allocations = {ids_[0], ids_[0]};
  Plan plan;
  plan.before.resize(4);
  plan.before[3] = {{PlanStep::kPreEvict, 0, Tier::kHost}};
  policy_.follow(made, plan, Tier::kHost);
  for (std::uint32_t k = 0; k < 4; ++k) run(k, 0);
  EXPECT_THAT(causes(), IsEmpty());
}

// Memory is made ready a few launches early, and planners are told so.
TEST(RoomAhead, IsTakenALittleBeforeTheFirstUse) {
  Trace trace = test::trace_of_uses(
      {{kBlockBytes, true, false}, {kBlockBytes, false, false}, {kBlockBytes, false, false}},
      {{0}, {0}, {0}, {0}, {0, 1}, {0, 2}});
  for (Kernel& kernel : trace.kernels) kernel.duration_ns = 2'000'000;
  const Trace ahead = with_room_ahead(trace);
  EXPECT_THAT(ahead.kernels[1].writes, IsEmpty());
  EXPECT_THAT(ahead.kernels[2].writes, ElementsAre(1));
  EXPECT_THAT(ahead.kernels[3].writes, ElementsAre(2));
  EXPECT_EQ(ahead.kernels[4].reads, trace.kernels[4].reads);
  // Where launches take long enough, the end of the one before is early enough.
  for (Kernel& kernel : trace.kernels) kernel.duration_ns = 50'000'000;
  EXPECT_THAT(with_room_ahead(trace).kernels[2].writes, IsEmpty());
  EXPECT_THAT(with_room_ahead(trace).kernels[3].writes, ElementsAre(1));
}

// A kernel that an iteration launches twice is at its second place the second time.
TEST_F(ProfiledTest, OneExecutionAtSeveralPlaces) {
  RecordedIteration made = iteration({{0}, {1}, {0}, {1}});
  made.executions = {kFirst, kFirst + 1, kFirst, kFirst + 1};
  Plan plan;
  plan.before.resize(4);
  plan.before[3] = {{PlanStep::kPreEvict, 0, Tier::kHost}};
  policy_.follow(made, plan, Tier::kHost);
  run(0, 0);
  run(1, 1);
  EXPECT_THAT(causes(), IsEmpty());
  run(0, 0);
  EXPECT_THAT(causes(), ElementsAre(Cause::kPreEvict));
}

// Recorded was an iteration that comes seldom, and paging hardly ever stops in the others.
TEST_F(ProfiledTest, APlanThatStopsMoreOftenThanPagingIsGivenUp) {
  for (int i = 0; i < 40; ++i) {
    for (const TensorId t : {0U, 1U, 0U, 1U}) run(t, t);
    if (i % 10 == 0) run(2, 2);
  }
  Plan plan;
  plan.before.resize(3);
  policy_.follow(iteration({{0}, {1}, {2}}), plan, Tier::kHost);
  for (TensorId t = 0; t < 3; ++t) run(t, t);
  EXPECT_TRUE(policy_.follows_plan());
  for (int i = 0; i < 3; ++i) {
    for (TensorId t = 0; t < 3; ++t) run(t, t);
  }
  EXPECT_FALSE(policy_.follows_plan());
  EXPECT_TRUE(policy_.gave_up());
  for (TensorId t = 0; t < 3; ++t) run(t, t);
}

// What is planned behind a launch happens when that one ends, whatever runs beside it.
TEST_F(ProfiledTest, LaunchesThatOverlap) {
  Plan plan;
  plan.before.resize(4);
  plan.before[2] = {{PlanStep::kPreEvict, 0, Tier::kHost}};
  policy_.follow(iteration({{0}, {1}, {}, {}}), plan, Tier::kHost);
  const LaunchId first = platform_.begin(kFirst, {ids_[0]});
  const LaunchId second = platform_.begin(kFirst + 1, {ids_[1]});
  platform_.end(first);
  EXPECT_THAT(causes(), IsEmpty());
  platform_.end(second);
  EXPECT_THAT(causes(), ElementsAre(Cause::kPreEvict));
}

}  // namespace
}  // namespace spillway
