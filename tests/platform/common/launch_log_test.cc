// What is known of launches: which are the same again, what each has waited for, and one iteration
// of them on request.
#include "platform/common/launch_log.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace spillway {
namespace {

LaunchHash hash_of(std::string_view name, std::uint64_t allocation = 0) {
  const std::array identity{LaunchOperand{.allocation = allocation, .bytes = 64}};
  return hash_launch(name, identity);
}

TEST(LaunchLog, KnowsALaunchThatComesAgain) {
  LaunchLog log;
  const ExecutionId first = log.launched(hash_of("matmul"), "matmul", {}).execution;
  const ExecutionId other =
      log.launched(hash_of("matmul", 1), "matmul of something else", {}).execution;
  EXPECT_NE(first, other);
  EXPECT_EQ(log.launched(hash_of("matmul"), "the same by another name", {}).execution, first);
  const std::vector<LaunchWaits> waits = log.longest_waits();
  ASSERT_EQ(waits.size(), 2U);
  EXPECT_EQ(waits[0].name, "matmul");
  EXPECT_EQ(waits[0].launches, 2U);
  EXPECT_EQ(waits[1].launches, 1U);
}

TEST(LaunchLog, BooksWaitsToWhereTheBytesCameFrom) {
  LaunchLog log;
  const LogRow id = log.launched(hash_of("matmul"), "matmul", {}).row;
  log.waited(id, Source::kHostCopy, 1);
  log.waited(id, Source::kStorageCopy, 20);
  log.waited(id, Source::kZeros, 300);
  log.waited_for_room(id, 4000);
  log.waited(kNoLogRow, Source::kHostCopy, 50'000);  // nobody's
  const LaunchWaits waits = log.longest_waits().at(0);
  EXPECT_EQ(waits.blocks, 3U);
  EXPECT_EQ(waits.host_ns, 1);
  EXPECT_EQ(waits.storage_ns, 20);
  EXPECT_EQ(waits.fresh_ns, 300);
  EXPECT_EQ(waits.wait_ns, 4321);
}

TEST(LaunchLog, TellsTheLongestWaitFirst) {
  LaunchLog log;
  for (const auto& [name, waited_ns] :
       {std::pair("short", 1), std::pair("long", 300), std::pair("middle", 20)}) {
    log.waited(log.launched(hash_of(name), name, {}).row, Source::kZeros, waited_ns);
  }
  std::vector<std::string> names;
  for (const LaunchWaits& waits : log.longest_waits()) names.push_back(waits.name);
  EXPECT_EQ(names, (std::vector<std::string>{"long", "middle", "short"}));
}

// Policies are told of two launches, people of one name.
TEST(LaunchLog, OneRowForAName) {
  LaunchLog log;
  const LaunchLog::Launched first = log.launched(hash_of("fill", 1), "fill", {});
  const LaunchLog::Launched second = log.launched(hash_of("fill", 2), "fill", {});
  EXPECT_NE(first.execution, second.execution);
  EXPECT_EQ(first.row, second.row);
  EXPECT_EQ(log.longest_waits().at(0).launches, 2U);
}

// Where it is known in which module they ran, people are told of name and module, whatever makes
// two launches the same to policies; those get the same execution ids as ever.
TEST(LaunchLog, ModulesNameRowsAndNothingElse) {
  LaunchLog with;
  LaunchLog without;
  const auto launch = [&](std::uint64_t allocation, std::string_view module) {
    const LaunchHash hash = hash_of("matmul", allocation);
    const LaunchLog::Launched launched = with.launched(hash, "matmul", module);
    EXPECT_EQ(launched.execution, without.launched(hash, "matmul", {}).execution);
    return launched.row;
  };
  const LogRow mlp = launch(0, "h.0.mlp");
  EXPECT_EQ(launch(1, "h.0.mlp"), mlp);  // another execution id
  EXPECT_NE(launch(0, "h.1.mlp"), mlp);  // the same in another module
  EXPECT_NE(launch(0, "h.0.mlp (backward)"), mlp);
  const LogRow alone = launch(0, {});
  EXPECT_EQ(with.name_of(mlp), "h.0.mlp matmul");
  EXPECT_EQ(with.name_of(alone), "matmul");
  with.waited(mlp, Source::kHostCopy, 7);
  const LaunchWaits longest = with.longest_waits().at(0);
  EXPECT_EQ(longest.name, "h.0.mlp matmul");
  EXPECT_EQ(longest.module, "h.0.mlp");
  EXPECT_EQ(longest.launches, 2U);
  EXPECT_EQ(longest.wait_ns, 7);
}

TEST(LaunchLog, MoreNamesThanItKeepsAreToldByExecution) {
  LaunchLog log;
  const LaunchHash hash = hash_of("matmul");
  const LogRow first = log.launched(hash, "matmul", "0").row;
  for (std::size_t i = 1; i < LaunchLog::kMostNames; ++i) {
    log.launched(hash, "matmul", std::to_string(i));
  }
  const LogRow behind = log.launched(hash, "matmul", "one more").row;
  EXPECT_EQ(log.name_of(behind), "matmul");
  EXPECT_EQ(log.launched(hash, "matmul", "another").row, behind);
  EXPECT_EQ(log.launched(hash, "matmul", "0").row, first);
}

TEST(LaunchLog, RecordsOnlyWhenAsked) {
  LaunchLog log;
  EXPECT_EQ(log.recorder(), nullptr);
  EXPECT_FALSE(log.end_recording(0, 0));
  log.begin_recording();
  EXPECT_FALSE(log.end_recording(10, 0));  // nothing was launched
  EXPECT_EQ(log.recorder(), nullptr);

  log.begin_recording();
  ASSERT_NE(log.recorder(), nullptr);
  log.recorder()->launch(7, "matmul", 100, 0, true);
  log.recorder()->access(3, kMiB, true);
  const std::optional<RecordedIteration> iteration = log.end_recording(600, 200);
  ASSERT_TRUE(iteration);
  ASSERT_EQ(iteration->trace.kernels.size(), 1U);
  EXPECT_EQ(iteration->trace.kernels[0].duration_ns, 300);  // 200 of 500 were spent waiting
  EXPECT_EQ(iteration->executions, std::vector<ExecutionId>{7});
  EXPECT_EQ(iteration->allocations, std::vector<AllocationId>{3});
  EXPECT_TRUE(iteration->complete);
  EXPECT_EQ(log.recorder(), nullptr);
}

// One recording that is asked for while another runs begins anew.
TEST(LaunchLog, ARecordingBeginsWithNothing) {
  LaunchLog log;
  log.begin_recording();
  log.recorder()->launch(7, "before", 100, 0, true);
  log.begin_recording();
  log.recorder()->launch(8, "after", 200, 0, true);
  const std::optional<RecordedIteration> iteration = log.end_recording(300, 0);
  ASSERT_TRUE(iteration);
  EXPECT_EQ(iteration->executions, std::vector<ExecutionId>{8});
}

}  // namespace
}  // namespace spillway
