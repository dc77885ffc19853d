// The search for the batch up to which Spillway pays. Times are made up by formulas: none is
// simulated.
#include "runtime/estimate_batches.h"

#include <gtest/gtest.h>

#include <functional>

#include "policy/registry.h"

namespace spillway {
namespace {

// A kernel of 10 ns for each of the batch.
Trace growing_step(std::uint64_t batch) {
  Trace t;
  t.tensors = {{100 * batch, false, false}};
  t.kernels = {Kernel{
      .name = "k", .duration_ns = static_cast<TimeNs>(10 * batch), .reads = {}, .writes = {0}}};
  return t;
}

class WorthUpToABatch : public ::testing::Test {
 protected:
  using Times = std::function<double(std::uint64_t)>;
  static constexpr double kCannot = -1;

  // Of a machine on which `fits` fit and a step takes `step`, and what it is compared with `other`.
  Result<WorthUpTo> of(std::uint64_t fits, const Times& step, const Times& other) {
    const Trace one = growing_step(1);
    const Trace two = growing_step(2);
    const Result<BatchSteps> steps = BatchSteps::between({one, 1}, {two, 2});
    const BatchCase each{.steps = &*steps,
                         .checkpoints = compares_ ? &checkpoints_ : nullptr,
                         .machine = {},
                         .fits = fits};
    kept_.clear();
    const auto keep = [&](const Trace& trace) -> Result<std::size_t> {
      kept_.push_back(trace.batch_size);
      return kept_.size() - 1;
    };
    const auto run = [&](std::span<const BatchJob> jobs) {
      ++runs_;
      EXPECT_LE(jobs.size(), 8U);
      std::vector<BatchOutcome> outcomes;
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        outcomes.push_back(outcome_of((i % 2 == 0 ? step : other)(kept_[jobs[i].trace])));
      }
      return outcomes;
    };
    return worth_up_to(std::span(&each, 1), *find_policy("lookahead").value(), keep, run)
        .map([](const auto& found) { return found.front(); });
  }

  static BatchOutcome outcome_of(double iteration_ns) {
    if (iteration_ns == kCannot) {
      return {TraceFacts{}, make_error(ErrorCode::kCannotRun, "too little"), 0};
    }
    SimulationResult result;
    result.iteration_ns = static_cast<TimeNs>(iteration_ns);
    return {TraceFacts{}, result, 0};
  }

  bool compares_ = true;
  Checkpoints checkpoints_;
  std::vector<std::uint64_t> kept_;
  int runs_ = 0;
};

double in_proportion(std::uint64_t batch) { return 100.0 * static_cast<double>(batch); }

// With 16 that fit, each further one costs twice as much; checkpointing a quarter more for each:
// 16 + 2 * (b - 16) <= 1.25 * b up to 21. Tried are 20, 24, 32, 48, then 21, 22, 23.
TEST_F(WorthUpToABatch, EndsWhereCheckpointingIsFaster) {
  const auto step = [](std::uint64_t b) { return in_proportion(b <= 16 ? b : 16 + 2 * (b - 16)); };
  const Result<WorthUpTo> found =
      of(16, step, [](std::uint64_t b) { return 1.25 * in_proportion(b); });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->batch, 21U);
  EXPECT_FALSE(found->or_more);
  EXPECT_EQ(runs_, 2);
}

// Three times 3 is what is tried at the most.
TEST_F(WorthUpToABatch, MayBeMoreThanWasTried) {
  const Result<WorthUpTo> found = of(2, in_proportion, in_proportion);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->batch, 54U) << "2 * 3 * 3 * 3";
  EXPECT_TRUE(found->or_more);
  EXPECT_EQ(runs_, 3);
}

TEST_F(WorthUpToABatch, IsNoneWhereNotEvenOneIs) {
  const Result<WorthUpTo> found = of(
      0, [](std::uint64_t) { return kCannot; }, [](std::uint64_t) { return kCannot; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->batch, 0U);
  EXPECT_FALSE(found->or_more);
}

TEST_F(WorthUpToABatch, GoesOnWhereOnlyCheckpointingCannotRun) {
  const auto step = [](std::uint64_t b) { return b <= 3 ? in_proportion(b) : kCannot; };
  const Result<WorthUpTo> found = of(0, step, [](std::uint64_t) { return kCannot; });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->batch, 3U) << "of 1, 2, 4, 8, and then 3";
}

// Without checkpoints a sample may cost half as much again: 2 * (b - 16) <= 0.5 * b ends at 21.
TEST_F(WorthUpToABatch, IsHalfAsMuchAgainWithoutCheckpointing) {
  compares_ = false;
  const auto step = [](std::uint64_t b) { return in_proportion(b <= 16 ? b : b + 2 * (b - 16)); };
  const Result<WorthUpTo> found = of(16, step, in_proportion);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->batch, 21U);
}

TEST_F(WorthUpToABatch, FailsWhereASimulationDoes) {
  const auto keep = [](const Trace&) -> Result<std::size_t> {
    return make_error(ErrorCode::kIo, "disk full");
  };
  const Trace one = growing_step(1);
  const Trace two = growing_step(2);
  const Result<BatchSteps> steps = BatchSteps::between({one, 1}, {two, 2});
  const BatchCase each{.steps = &*steps, .checkpoints = nullptr, .machine = {}, .fits = 1};
  const auto found = worth_up_to(std::span(&each, 1), *find_policy("lookahead").value(), keep,
                                 [](std::span<const BatchJob>) -> std::vector<BatchOutcome> {
                                   ADD_FAILURE() << "nothing to run";
                                   return {};
                                 });
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "disk full");
}

}  // namespace
}  // namespace spillway
