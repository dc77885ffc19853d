// Device memory that the driver serves past a budget, under `spillway run` on the fake driver: it
// is counted, said while it grows, told at the end, and ends a run that is strict.
#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace spillway::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr std::uint64_t kMiB = 1 << 20;

class PastBudget : public ProgramTest {
 protected:
  [[nodiscard]] Outcome run_on_gpu(const std::string& scenario, const std::string& options = "",
                                   const std::string& environment = "") const {
    return run(fmt::format("run --device cuda --device-memory 16MiB --host-memory 64MiB {} -- {} "
                           "dlopen {}",
                           options, CUDA_PROGRAM, scenario),
               fmt::format("{2} SPILLWAY_CUDA_DRIVER='{0}' SPILLWAY_NVML='{1}' "
                           "LD_LIBRARY_PATH=$(dirname '{0}')",
                           FAKE_CUDA_LIBRARY, FAKE_NVML_LIBRARY, environment));
  }
  [[nodiscard]] json record_of(const std::string& scenario,
                               const std::string& environment = "") const {
    const Outcome outcome = run_on_gpu(scenario, "--json record", environment);
    EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    return json::parse(read_file(folder_ / "record"));
  }
};

std::size_t lines_with(const Outcome& outcome, const std::string& words) {
  const std::vector<std::string> lines = lines_of(outcome.err);
  return static_cast<std::size_t>(std::count_if(
      lines.begin(), lines.end(),
      [&](const std::string& line) { return line.find(words) != std::string::npos; }));
}

constexpr const char* kTaken = "were taken past the budget";

TEST_F(PastBudget, IsSaidAndTold) {
  const Outcome outcome = run_on_gpu("past-budget");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err,
              HasSubstr("spillway: 512 MiB of device memory were taken past the budget by "
                        "cuMemCreate (cuda_program)"));
  EXPECT_EQ(lines_with(outcome, kTaken), 1U) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("  past limit 585 MiB of device memory at the highest: "
                                           "512 MiB by cuMemCreate (cuda_program), 32 MiB by "
                                           "cuMemAllocManaged"),
                                 HasSubstr("in use by this process at the highest")));
}

TEST_F(PastBudget, EachWayIsInTheRecord) {
  const json record = record_of("past-budget");
  EXPECT_EQ(record["past_budget_peak_bytes"], 585 * kMiB);
  std::map<std::string, std::uint64_t> by;
  for (const json& one : record["past_budget"]) {
    EXPECT_EQ(one["library"], "cuda_program");
    by[one["call"]] = one["peak_bytes"].get<std::uint64_t>() / kMiB;
  }
  EXPECT_EQ(by, (std::map<std::string, std::uint64_t>{{"cuMemCreate", 512},
                                                      {"cuMemAllocManaged", 32},
                                                      {"cuArrayCreate", 16},
                                                      {"cuMipmappedArrayCreate", 5},
                                                      {"cuGraphAddMemAllocNode", 6},
                                                      {"cuGraphAddNode", 4},
                                                      {"cuImportExternalMemory", 10}}));
  EXPECT_GE(record["device_in_use_peak_bytes"].get<std::uint64_t>(), 4 * kMiB);
  EXPECT_EQ(record["device_growth_peak_bytes"], 0U);
}

// A workspace is worth no line; the record has it.
TEST_F(PastBudget, ALittleIsNotSaidButTold) {
  const Outcome outcome = run_on_gpu("a-little-past", "--strict");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(lines_with(outcome, kTaken), 0U) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("128 MiB by cuMemCreate"));
}

TEST_F(PastBudget, WhatIsGivenBackDoesNotCount) {
  const Outcome outcome = run_on_gpu("again-past");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(lines_with(outcome, kTaken), 1U) << outcome.err;
  EXPECT_EQ(record_of("again-past")["past_budget_peak_bytes"], 384 * kMiB);
}

TEST_F(PastBudget, StrictEndsTheRun) {
  for (const char* const environment : {"", "SPILLWAY_STRICT=1"}) {
    const Outcome outcome =
        run_on_gpu("past-budget", *environment == 0 ? "--strict" : "", environment);
    EXPECT_EQ(outcome.status, 125) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("(cuda_program): it stays on the device, beside what "
                                       "--device-memory allows; ending it, as --strict wants"));
  }
}

TEST_F(PastBudget, AProgramWithNothingWithinTheBudgetHasARecord) {
  const Outcome outcome = run_on_gpu("nothing-within");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("none of the program's device memory was within the "
                              "budget"),
                    HasSubstr("512 MiB by cuMemAllocManaged"), Not(HasSubstr("had no effect"))));
  EXPECT_EQ(record_of("nothing-within")["past_budget_peak_bytes"], 512 * kMiB);
}

// Nobody has caught the call; the driver knows of the memory.
TEST_F(PastBudget, TheDriverIsAskedWhatNoHookHasSeen) {
  const Outcome outcome = run_on_gpu("unseen-past");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(lines_with(outcome, "past the budget by calls that Spillway does not see"), 1U)
      << outcome.err;
  const json record = record_of("unseen-past");
  EXPECT_GE(record["past_budget_peak_bytes"].get<std::uint64_t>(), 1400 * kMiB);
  EXPECT_GE(record["device_in_use_peak_bytes"].get<std::uint64_t>(), 1536 * kMiB);
}

// Memory of another process that this one has opened is in that one's budget (docs/interposer.md).
TEST_F(PastBudget, WhatOthersHaveExportedIsNotThisOnes) {
  const Outcome outcome = run_on_gpu("hand-over-counted");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr(kTaken)));
}

// As in a container: how much more there is than at first can be told, and not whose it is.
TEST_F(PastBudget, WhereTheProcessIsNotListedOnlyTheGrowthIsTold) {
  const json record = record_of("unseen-past", "FAKE_NVML_PID=hidden");
  EXPECT_EQ(record["past_budget_peak_bytes"], 0U);
  EXPECT_EQ(record["device_in_use_peak_bytes"], 0U);
  EXPECT_GE(record["device_growth_peak_bytes"].get<std::uint64_t>(), 1536 * kMiB);
}

}  // namespace
}  // namespace spillway::test
