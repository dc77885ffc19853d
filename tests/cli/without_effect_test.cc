// What is set for a run and changes nothing of it is one line before the program starts, and with
// --strict the run's end. docs/commands.md has the list.
#include <gmock/gmock.h>

#include "cli/program.h"
#include "platform/host/faults/userfault.h"

namespace spillway::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class WithoutEffect : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (!host::userfault_support().kernel_faults) {
      GTEST_SKIP() << "no run works here";
    }
  }
  // `options` and `environment` are said to be without effect, and only with them; strict, they end
  // the run.
  void expect_line(const std::string& device, const std::string& options,
                   const std::string& environment, const std::string& line,
                   const std::string& program = "true") const {
    SCOPED_TRACE(options + " " + environment);
    const std::string begin = "run --device " + device;
    EXPECT_THAT(run(begin + " " + options + " -- " + program, environment + gpu_).err,
                HasSubstr("spillway: " + line));
    expect_refusal(run(begin + " --strict " + options + " -- " + program, environment + gpu_), 2,
                   line);
  }
  std::string gpu_;
};

TEST_F(WithoutEffect, OptionsThatAPolicyHasNoUseFor) {
  expect_line("host", "--policy base_uvm --prefetch-degree 8", "",
              "--prefetch-degree 8 has no effect: the policy base_uvm has no such degree");
  expect_line("host", "--policy base_uvm", "SPILLWAY_PREFETCH_DEGREE=8",
              "SPILLWAY_PREFETCH_DEGREE=8 has no effect");
  expect_line("host", "--policy g10_gds --storage . --host-memory 64MiB", "",
              "--host-memory 64MiB has no effect: the policy g10_gds moves data to storage only");
  expect_line("host", "--policy ideal --device-memory 64MiB", "",
              "--device-memory 64MiB has no effect: the policy ideal stands for unlimited");
}

TEST_F(WithoutEffect, VariablesThatNobodyReads) {
  expect_line("host", "", "SPILLWAY_DEVICE_MEMROY=4GiB",
              "SPILLWAY_DEVICE_MEMROY has no effect: nothing reads it; is SPILLWAY_DEVICE_MEMORY "
              "meant?");
  expect_line("host", "", "SPILLWAY_ENTIRELY_UNKNOWN_NAME=1",
              "SPILLWAY_ENTIRELY_UNKNOWN_NAME has no effect");
}

TEST_F(WithoutEffect, VariablesThatARunSetsItself) {
  expect_line("host", "", "SPILLWAY_DEVICE=cuda", "SPILLWAY_DEVICE=cuda has no effect");
  expect_line("host", "", "INTEL_LIBITTNOTIFY64=/opt/collector.so",
              "INTEL_LIBITTNOTIFY64=/opt/collector.so has no effect");
  // In a run inside a run they are ours.
  const Outcome inside =
      run(fmt::format("run --device host --strict -- '{}' run --device host "
                      "--strict -- dd if=/dev/zero of=/dev/null bs=8M count=2",
                      SPILLWAY_PROGRAM));
  EXPECT_THAT(inside.err, Not(HasSubstr("has no effect"))) << inside.err;
}

TEST_F(WithoutEffect, AGpuThatIsNotUsed) {
  expect_line("auto", "", "SPILLWAY_CUDA_DRIVER=/no/such/libcuda.so.1",
              "the GPU is not used, and the budgets are of this machine's own memory");
  EXPECT_THAT(run("run --device host -- true", "SPILLWAY_CUDA_DRIVER=/no/such/libcuda.so.1").err,
              Not(HasSubstr("the GPU is not used")));
}

TEST_F(WithoutEffect, PythonWithoutItsHook) {
  for (const char* const flags : {"-I", "-bE", "-W ignore -S"}) {
    const std::string last(1, std::string(flags).back());
    expect_line("host", "", "",
                fmt::format("python3 -{} keeps Spillway's hook out of Python", last),
                fmt::format("python3 {} -c pass", flags));
  }
  for (const char* const words : {"-c 'pass' -I", "-W ignore -c pass", "-X dev -c pass"}) {
    EXPECT_THAT(run(fmt::format("run --device host -- python3 {}", words)).err,
                Not(HasSubstr("hook")));
  }
}

// Where nothing large was allocated, strict gives the end a status of its own, if the program has
// none.
// Not with a sanitizer: its libraries are not preloaded.
#ifdef FAKE_CUDA_LIBRARY
TEST_F(WithoutEffect, ARunInWhichNothingWasUsed) {
  EXPECT_EQ(run("run --device host -- true").status, 0);
  const Outcome strict = run("run --device host --strict -- true");
  EXPECT_EQ(strict.status, 125);
  EXPECT_THAT(strict.err, HasSubstr("no large allocation was made"));
  EXPECT_EQ(run("run --device host --strict -- sh -c 'exit 3'").status, 3);
  EXPECT_EQ(run("run --device host --strict -- dd if=/dev/zero of=/dev/null bs=8M count=2").status,
            0);
}

class WithoutEffectOnGpu : public WithoutEffect {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    gpu_ = fmt::format(" SPILLWAY_CUDA_DRIVER='{}'", FAKE_CUDA_LIBRARY);
  }
};

TEST_F(WithoutEffectOnGpu, OptionsThatAGpuHasNoUseFor) {
  expect_line("cuda", "--fault-latency 50us", "", "--fault-latency 50us has no effect");
  expect_line("cuda", "--threshold 4MiB", "", "--threshold 4MiB has no effect");
  expect_line("cuda", "", "SPILLWAY_THRESHOLD=4MiB", "SPILLWAY_THRESHOLD=4MiB has no effect");
  expect_line("cuda", "--prefetch-degree 8", "",
              "--prefetch-degree 8 has no effect: the policy lookahead has no such degree");
}

TEST_F(WithoutEffectOnGpu, ASlowLinkIsNoneOfThem) {
  const Outcome outcome =
      run("run --device cuda --link-bandwidth 10GB -- sh -c 'echo $SPILLWAY_LINK_BANDWIDTH'", gpu_);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "10GB\n");
  EXPECT_THAT(outcome.err, HasSubstr("host-mapped memory (--link-bandwidth cannot hold it back)"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("has no effect")));
}

TEST_F(WithoutEffectOnGpu, VariablesOfLibrariesThatGoPastIt) {
  expect_line("cuda", "", "TF_FORCE_UNIFIED_MEMORY=1",
              "the device budget has no effect on what XLA allocates: TF_FORCE_UNIFIED_MEMORY=1");
  expect_line("cuda", "", "CUDA_LAUNCH_BLOCKING=1", "the policy has no effect ahead of need");
}

TEST_F(WithoutEffectOnGpu, AProgramThatUsesNoDeviceMemory) {
  const Outcome outcome = run("run --device cuda -- true", gpu_);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("the device budget had no effect: the program used no device "
                                     "memory"));
  EXPECT_EQ(run("run --device cuda --strict -- true", gpu_).status, 125);
}
#endif

}  // namespace
}  // namespace spillway::test
