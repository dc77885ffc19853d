// `spillway run` in a control group with less memory than the budgets and the program want: a
// refusal that the program hears of, or storage, and never the kernel's end. docs/cuda.md.
#include "cli/memory_group.h"
#include "cli/program.h"
#include "platform/host/faults/userfault.h"

namespace spillway::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr Bytes kLimitBytes = 256 * kMiB;

class LittleMemoryRun : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    group_ = MemoryGroup::make(kLimitBytes);
    if (!group_) {
      GTEST_SKIP() << "no control group for memory can be made here";
    }
  }
  void expect_nobody_was_killed(const Outcome& outcome) const {
    EXPECT_EQ(group_->killed(), 0U) << outcome.out << outcome.err;
  }
  std::unique_ptr<MemoryGroup> group_;
};

// Not with a sanitizer: its libraries are not preloaded.
#ifdef FAKE_CUDA_LIBRARY
class LittleMemoryOnGpu : public LittleMemoryRun {
 protected:
  [[nodiscard]] Outcome run_in_group(const std::string& scenario,
                                     const std::string& options) const {
    return run(fmt::format("run --device cuda --device-memory 32MiB {} -- {} dlopen {}", options,
                           CUDA_PROGRAM, scenario),
               fmt::format("{1} SPILLWAY_CUDA_DRIVER='{0}' LD_LIBRARY_PATH=$(dirname '{0}')",
                           FAKE_CUDA_LIBRARY, group_->enter()));
  }
  // "buffers 17"
  static int buffers(const Outcome& outcome) {
    std::istringstream words(lines_of(outcome.out).front());
    std::string name;
    int count = 0;
    words >> name >> count;
    return count;
  }
};

TEST_F(LittleMemoryOnGpu, ABudgetThatWantsMoreIsRefusedAndNobodyKilled) {
  const Outcome outcome = run_in_group("all-there-is", "--host-memory 4GiB");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  expect_nobody_was_killed(outcome);
  EXPECT_THAT(outcome.out, HasSubstr("wrong 0"));
  EXPECT_GT(buffers(outcome), 4) << outcome.out;
  EXPECT_LT(buffers(outcome), 16) << outcome.out;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--host-memory: 4GiB is more than control group "),
                                 HasSubstr("spillway: out of memory: 16 MiB asked for"),
                                 HasSubstr("name a place to swap to with --storage")));
}

TEST_F(LittleMemoryOnGpu, TheDefaultIsTakenFromTheGroup) {
  const Outcome outcome = run_in_group("all-there-is", "--json record");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  expect_nobody_was_killed(outcome);
  EXPECT_GT(buffers(outcome), 4) << outcome.out;
  EXPECT_LT(buffers(outcome), 11) << outcome.out;
  EXPECT_THAT(outcome.err, Not(HasSubstr("more than")));
}

TEST_F(LittleMemoryOnGpu, StorageTakesTheRest) {
  const Outcome outcome = run_in_group("all-there-is", "--host-memory 4GiB --storage .:1GiB");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  expect_nobody_was_killed(outcome);
  EXPECT_EQ(buffers(outcome), 40) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("wrong 0"));
}

class LittleMemoryOnHost : public LittleMemoryRun {
 protected:
  void SetUp() override {
    LittleMemoryRun::SetUp();
    if (!host::userfault_support().kernel_faults) {
      GTEST_SKIP() << "no run works here";
    }
  }
  // One buffer of so many MiB, which is written.
  [[nodiscard]] Outcome run_in_group(int mib, const std::string& options) const {
    return run(fmt::format("run --device host {} -- dd if=/dev/zero of=/dev/null bs={}M count=1",
                           options, mib),
               group_->enter());
  }
};

TEST_F(LittleMemoryOnHost, BudgetsAreLoweredToWhatThereIs) {
  constexpr const char* kBudgets = "--device-memory 1GiB --host-memory 1GiB";
  const Outcome fits = run_in_group(100, kBudgets);
  EXPECT_EQ(fits.status, 0) << fits.err;
  EXPECT_THAT(fits.err, AllOf(HasSubstr("--device-memory: 1GiB is more than control group "),
                              HasSubstr("stay for the program itself")));
  const Outcome larger = run_in_group(400, kBudgets);
  EXPECT_EQ(larger.status, 1) << larger.err;
  EXPECT_THAT(larger.err, AllOf(HasSubstr("out of memory"), HasSubstr("memory exhausted")));
  expect_nobody_was_killed(larger);
}

TEST_F(LittleMemoryOnHost, StorageTakesTheRest) {
  const Outcome outcome =
      run_in_group(400, "--device-memory 1GiB --host-memory 1GiB --storage .:1GiB");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  expect_nobody_was_killed(outcome);
}

TEST_F(LittleMemoryOnHost, DefaultsFit) {
  const Outcome outcome = run_in_group(400, "--storage .:1GiB");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("the budgets are")));
  expect_nobody_was_killed(outcome);
}
#endif

}  // namespace
}  // namespace spillway::test
