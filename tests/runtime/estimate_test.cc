// What an estimate makes of simulated times, which are given here: no simulation runs.
#include "runtime/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/registry.h"

namespace spillway {
namespace {

// Of five launches.
BatchOutcome outcome_of(TimeNs iteration_ns) {
  SimulationResult result;
  result.iteration_ns = iteration_ns;
  result.ideal_ns = 100;
  result.iterations = 2;
  result.stats.launches = 10;
  return {TraceFacts{}, result, 0};
}

BatchOutcome cannot_run() {
  return {TraceFacts{}, make_error(ErrorCode::kCannotRun, "lookahead: too little"), 0};
}

class EstimateOfAStep : public ::testing::Test {
 protected:
  EstimateOfAStep() {
    case_.machine.name = "mine";
    case_.machine.link = {.to_device_bytes_per_s = 10, .from_device_bytes_per_s = 10};
    case_.machine.storage.read_bytes_per_s = 3;
    case_.machine.handles.map_ns = 40;
  }

  // Of a machine on which a step takes these times: with memory enough, and under the policy; then
  // with a link, a storage, calls for handles that are twice as fast.
  Result<Estimate> of(std::vector<BatchOutcome> first, std::vector<BatchOutcome> what_if = {}) {
    const auto run = [&](std::span<const BatchJob> jobs) {
      runs_.emplace_back(jobs.begin(), jobs.end());
      return runs_.size() == 1 ? first : what_if;
    };
    Result<std::vector<Estimate>> all =
        estimate(std::span(&case_, 1), *find_policy("lookahead").value(), run);
    return all.map([](auto& estimates) { return estimates.front(); });
  }

  EstimateCase case_;
  std::vector<std::vector<BatchJob>> runs_;
};

TEST_F(EstimateOfAStep, IsComputationWhereNothingIsSlower) {
  const Result<Estimate> estimate = of({outcome_of(104), outcome_of(109)});
  ASSERT_TRUE(estimate);
  EXPECT_EQ(estimate->limit, Limit::kComputation);
  ASSERT_EQ(runs_.size(), 1U) << "nothing is left to find out";
  EXPECT_EQ(runs_[0][0].policy->name, "ideal");
  EXPECT_EQ(runs_[0][1].policy->name, "lookahead");
}

// Five times 21 are more than the kernels' 100, five times 20 are not.
TEST_F(EstimateOfAStep, IsIssuingWhereThatTakesLongerThanTheKernels) {
  for (const auto& [launch_ns, limit] :
       {std::pair(21, Limit::kIssuing), std::pair(20, Limit::kComputation)}) {
    case_.machine.host.launch_ns = launch_ns;
    runs_.clear();
    const Result<Estimate> estimate = of({outcome_of(110), outcome_of(110)});
    ASSERT_TRUE(estimate);
    EXPECT_EQ(estimate->limit, limit);
  }
}

TEST_F(EstimateOfAStep, IsWhatHelpsMostIfTwiceAsFast) {
  const Result<Estimate> estimate =
      of({outcome_of(100), outcome_of(200)}, {outcome_of(150), outcome_of(200), outcome_of(120)});
  ASSERT_TRUE(estimate);
  EXPECT_EQ(estimate->limit, Limit::kHandles);
  EXPECT_DOUBLE_EQ(estimate->slowdown(), 2);
  ASSERT_EQ(runs_.size(), 2U);
  ASSERT_EQ(runs_[1].size(), 3U);
  EXPECT_EQ(runs_[1][0].machine.link.to_device_bytes_per_s, 20);
  EXPECT_EQ(runs_[1][0].machine.handles.map_ns, 40);
  EXPECT_EQ(runs_[1][1].machine.storage.read_bytes_per_s, 6);
  EXPECT_EQ(runs_[1][2].machine.handles.map_ns, 20);
  EXPECT_EQ(runs_[1][2].machine.link.to_device_bytes_per_s, 10);
}

TEST_F(EstimateOfAStep, IsSeveralThingsWhereNoneHelpsByATwentieth) {
  const Result<Estimate> estimate =
      of({outcome_of(100), outcome_of(200)}, {outcome_of(192), outcome_of(200), outcome_of(195)});
  ASSERT_TRUE(estimate);
  EXPECT_EQ(estimate->limit, Limit::kSeveral);
}

TEST_F(EstimateOfAStep, SaysWhyItCannotRun) {
  const Result<Estimate> estimate = of({outcome_of(100), cannot_run()});
  ASSERT_TRUE(estimate);
  ASSERT_FALSE(estimate->limited);
  EXPECT_EQ(estimate->limited.error().message, "lookahead: too little");
}

TEST_F(EstimateOfAStep, HasTheStepWithCheckpointingBeside) {
  case_.checkpointed = 7;
  const Result<Estimate> estimate = of({outcome_of(100), outcome_of(200), outcome_of(130)},
                                       {outcome_of(150), outcome_of(200), outcome_of(120)});
  ASSERT_TRUE(estimate);
  ASSERT_EQ(runs_[0].size(), 3U);
  EXPECT_EQ(runs_[0][2].trace, 7U);
  EXPECT_EQ(runs_[0][2].policy->name, "lookahead") << "it may not fit either";
  const auto& with = estimate->checkpointed;
  if (!with || !with->has_value()) {
    FAIL() << "no checkpointed step";
  }
  EXPECT_EQ((**with).iteration_ns, 130);
  EXPECT_EQ(estimate->limited->iteration_ns, 200);
}

TEST_F(EstimateOfAStep, MayBeUnableToRunWithCheckpointingToo) {
  case_.checkpointed = 7;
  const Result<Estimate> estimate = of({outcome_of(100), cannot_run(), cannot_run()});
  ASSERT_TRUE(estimate);
  const auto& with = estimate->checkpointed;
  EXPECT_TRUE(with && !with->has_value());
}

// 150 MiB and a fifteenth are 160, but at least 16 MiB of room are asked for.
TEST(FitsInDevice, AsksForRoom) {
  Machine machine;
  const auto fits = [&](Bytes capacity_bytes) {
    machine.device.capacity_bytes = capacity_bytes;
    return fits_in_device(150 * kMiB, machine);
  };
  EXPECT_EQ(fits(166 * kMiB), Fits::kYes);
  EXPECT_EQ(fits(165 * kMiB), Fits::kBarely);
  EXPECT_EQ(fits(150 * kMiB), Fits::kBarely);
  EXPECT_EQ(fits(149 * kMiB), Fits::kNo);
}

// 100 MiB of weights and 10 MiB for each of the batch. Within 166 MiB 150 MiB fit with room: 5.
TEST(LargestBatch, FitsWithRoom) {
  const auto step_with = [](Bytes batch) {
    Trace t;
    t.tensors = {{100 * kMiB, true, false}, {10 * kMiB * batch, false, false}};
    t.kernels = {Kernel{.name = "k", .duration_ns = 1, .reads = {0}, .writes = {1}}};
    return t;
  };
  const Trace one = step_with(1);
  const Trace two = step_with(2);
  const Result<BatchMemory> memory = growth_between({one, 1}, {two, 2});
  ASSERT_TRUE(memory);
  Machine machine;
  machine.device.capacity_bytes = 166 * kMiB;
  EXPECT_EQ(largest_batch(*memory, machine), 5U);
  machine.device.capacity_bytes = 120 * kMiB;
  EXPECT_EQ(largest_batch(*memory, machine), 0U) << "110 MiB want 126";
}

}  // namespace
}  // namespace spillway
