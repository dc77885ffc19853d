// `spillway record` of a program that knows nothing of Spillway, on the fake driver.
// docs/traces.md.
#include <nlohmann/json.hpp>
#include <set>

#include "cli/program.h"

namespace spillway::test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

class CudaRecording : public ProgramTest {
 protected:
  [[nodiscard]] Outcome record(const std::string& scenario, const std::string& budget) const {
    return run(fmt::format("record --device cuda --device-memory {} --host-memory 256MiB -o "
                           "step.json -- {} dlopen {}",
                           budget, CUDA_PROGRAM, scenario),
               fmt::format("SPILLWAY_CUDA_DRIVER='{0}' LD_LIBRARY_PATH=$(dirname '{0}')",
                           FAKE_CUDA_LIBRARY));
  }
};

// Also where the budget is less than what is alive: then launches stand behind stream waits.
TEST_F(CudaRecording, AnIterationIsWhatTheProgramPutOnItsStream) {
  for (const std::string budget : {"64MiB", "8MiB"}) {
    const Outcome outcome = record("training", budget);
    ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, ::testing::HasSubstr("violations 0"));
    const json trace = json::parse(read_file(folder_ / "step.json"));
    // Where the iteration begins in the loop is the finder's choice.
    const json& kernels = trace["kernels"];
    ASSERT_EQ(kernels.size(), 4U) << trace;
    std::multiset<std::uint64_t> persistent;
    std::multiset<std::uint64_t> intermediate;
    for (const json& tensor : trace["tensors"]) {
      (tensor["persistent"].get<bool>() ? persistent : intermediate)
          .insert(tensor["bytes"].get<std::uint64_t>() >> 20U);
    }
    EXPECT_THAT(persistent, ElementsAre(2, 4));
    EXPECT_THAT(intermediate, ::testing::Each(2));
    std::size_t synchronizations = 0;
    for (const json& kernel : kernels) {
      EXPECT_GT(kernel["ms"].get<double>(), 0);
      synchronizations += kernel.contains("sync") ? 1U : 0U;
    }
    EXPECT_EQ(synchronizations, 1U);
  }
}

TEST_F(CudaRecording, AProgramThatRepeatsNothingHasNoIteration) {
  const Outcome outcome = record("questions", "16MiB");
  EXPECT_EQ(outcome.status, 125);
  // Before it, what that program asks for and is refused.
  EXPECT_THAT(lines_of(outcome.err).back(), ::testing::HasSubstr("nothing is recorded: in 10 "));
}

}  // namespace
}  // namespace spillway::test
