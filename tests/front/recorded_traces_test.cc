// The traces that are kept in the repository: each is read, and runs in the simulator as the README
// beside them says.
#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "front/program.h"
#include "trace/read.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

using RecordedTraces = test::ProgramTest;

TEST_F(RecordedTraces, AreReadAndRunWithinTheirBounds) {
  int traces = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(SPILLWAY_SOURCE_DIR) / "traces")) {
    if (entry.path().extension() != ".swt") continue;
    ++traces;
    const Result<Trace> trace = read_trace(entry.path());
    ASSERT_TRUE(trace) << trace.error().message;
    TimeNs kernels_ns = 0;
    for (const Kernel& kernel : trace->kernels) kernels_ns += kernel.duration_ns;
    const test::Outcome outcome = run(
        fmt::format("simulate --policy lookahead --queue-depth 600 --machine h200 --as-run "
                    "--warm-up 1 --set device.capacity=20GiB --set host.capacity=64GiB --json {}",
                    entry.path().string()));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto result = nlohmann::json::parse(outcome.out);
    EXPECT_NEAR(result["ideal_s"].get<double>(), to_seconds(kernels_ns), 1e-6);
    EXPECT_GE(result["iteration_s"].get<double>(), to_seconds(kernels_ns));
    EXPECT_LT(result["fraction_of_ideal"].get<double>(), 1.0) << "it does not fit";
  }
  EXPECT_GT(traces, 0);
}

}  // namespace
}  // namespace spillway
