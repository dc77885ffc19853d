// Many simulations at a time: the same outcomes in the same order, however many threads.
#include "runtime/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "machine/load.h"
#include "trace/generate.h"
#include "trace/read.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Batch : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(testing::TempDir()) / fmt::format("spillway-batch-{}", getpid());
    std::filesystem::create_directories(folder_);
    for (const std::uint64_t layers : {2U, 4U}) {
      const Trace trace = generate_mlp(
          {.batch_size = layers, .inputs = 256, .width = 1024, .layers = layers, .training = {}});
      files_.push_back(folder_ / fmt::format("{}.swt", layers));
      ASSERT_TRUE(write_trace(trace, files_.back()).has_value());
    }
    machine_ = *load_machine("a100-40gb");
    machine_.device.capacity_bytes = 20 * kMiB;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] BatchJob job(std::size_t trace, std::string_view policy) const {
    return {trace, machine_, *find_policy(policy), {}};
  }

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> files_;
  Machine machine_;
};

TEST_F(Batch, OutcomesInTheOrderOfTheJobsForAnyNumberOfThreads) {
  // Traces alternate, so the order of work differs from the order of the jobs.
  const std::vector<BatchJob> jobs{job(1, "base_uvm"), job(0, "base_uvm"),    job(1, "ideal"),
                                   job(0, "ideal"),    job(1, "deepum_plus"), job(1, "base_uvm")};
  std::vector<TimeNs> expected_ns;
  for (const BatchJob& each : jobs) {
    const Trace trace = *read_trace(files_[each.trace]);
    expected_ns.push_back(simulate(trace, each.machine, *each.policy, each.options)->iteration_ns);
  }
  ASSERT_NE(expected_ns[0], expected_ns[1]);
  for (const std::size_t workers : {0U, 1U, 2U, 3U, 16U}) {
    std::vector<std::size_t> done;
    const std::vector<BatchOutcome> outcomes =
        run_batch(files_, jobs, workers, [&](std::size_t count) { done.push_back(count); });
    ASSERT_EQ(outcomes.size(), jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      ASSERT_TRUE(outcomes[i].result.has_value()) << outcomes[i].result.error().message;
      EXPECT_EQ(outcomes[i].result->iteration_ns, expected_ns[i]) << i << ", " << workers;
      EXPECT_EQ(outcomes[i].trace->batch_size, jobs[i].trace == 0 ? 2 : 4);
    }
    EXPECT_THAT(done, ElementsAre(1, 2, 3, 4, 5, 6)) << workers;
  }
}

TEST_F(Batch, FactsOutliveTheTrace) {
  const std::vector<BatchJob> jobs{job(0, "ideal")};
  const std::vector<BatchOutcome> outcomes = run_batch(files_, jobs, 1, {});
  const Trace trace = *read_trace(files_[0]);
  ASSERT_EQ(outcomes[0].trace->kernel_durations_ns.size(), trace.kernels.size());
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    EXPECT_EQ(outcomes[0].trace->kernel_durations_ns[i], trace.kernels[i].duration_ns);
  }
  EXPECT_EQ(outcomes[0].trace->ideal_ns, outcomes[0].result->iteration_ns) << "it is ideal";
  EXPECT_EQ(outcomes[0].trace->model, trace.model);
}

TEST_F(Batch, AnUnreadableTraceFailsItsJobsOnly) {
  files_.push_back(folder_ / "nothing.swt");
  const std::vector<BatchJob> jobs{job(2, "ideal"), job(0, "ideal"), job(2, "base_uvm")};
  const std::vector<BatchOutcome> outcomes = run_batch(files_, jobs, 2, {});
  for (const std::size_t bad : {0U, 2U}) {
    ASSERT_FALSE(outcomes[bad].trace.has_value());
    EXPECT_THAT(outcomes[bad].trace.error().message, HasSubstr("nothing.swt"));
    EXPECT_FALSE(outcomes[bad].result.has_value());
  }
  EXPECT_TRUE(outcomes[1].result.has_value());
}

TEST_F(Batch, NoJobsNoOutcomes) { EXPECT_THAT(run_batch(files_, {}, 4, {}), IsEmpty()); }

}  // namespace
}  // namespace spillway
