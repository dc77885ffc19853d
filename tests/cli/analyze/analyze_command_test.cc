// `spillway analyze ...` as a person calls it: what it prints and draws, and one line for a
// mistake.
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "analysis/example_traces.h"
#include "cli/program.h"
#include "plot/gnuplot_process.h"
#include "trace/read.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class AnalyzeCommand : public test::ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    Trace trace = test::ResidualBlock::trace();
    for (Tensor& tensor : trace.tensors) tensor.bytes *= kMiB;
    for (Kernel& kernel : trace.kernels) kernel.duration_ns *= kNsPerMs;
    const Status written = write_trace(trace, folder_ / "residual.swt");
    ASSERT_TRUE(written.has_value()) << written.error().message;
  }
};

TEST_F(AnalyzeCommand, PrintsTheSummary) {
  const test::Outcome outcome = run("analyze residual.swt --bandwidth 20GB/s");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, StartsWith("residual, batch size 4\n9 kernels, 114 ms"));
  EXPECT_THAT(outcome.out, HasSubstr("11 GiB  at kernel 5 Conv2(B)"));
  EXPECT_THAT(outcome.out, HasSubstr("8.59 GiB  at kernel 5 Conv2(B)"));
  EXPECT_THAT(outcome.out, HasSubstr("inactive periods: 10, 2 of them wrap"));
  EXPECT_THAT(outcome.out, HasSubstr("at 20 GB/s each way: 3 (30 %)"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("at best on")));
}

TEST_F(AnalyzeCommand, JsonIsOneLineWithBytesAndNanoseconds) {
  const test::Outcome outcome =
      run("analyze residual.swt --json --machine a100-40gb --set device.capacity=9000MiB");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(test::lines_of(outcome.out), SizeIs(1));
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["model"], "residual");
  EXPECT_EQ(json["iteration_ns"], 114 * kNsPerMs);
  EXPECT_EQ(json["tensors"]["scratch"]["bytes"], 5000 * kMiB);
  EXPECT_EQ(json["peak_live"]["bytes"], 11270 * kMiB);
  EXPECT_EQ(json["peak_live"]["kernel"], 5);
  EXPECT_EQ(json["largest_working_set"]["name"], "Conv2(B)");
  EXPECT_EQ(json["periods"]["count"], 10);
  EXPECT_EQ(json["periods"]["percentiles_ns"]["50"], 20 * kNsPerMs);
  EXPECT_EQ(json["periods"]["longer_than"][3]["count"], 8) << "than 10 ms";
  EXPECT_EQ(json["periods"]["bandwidth_bytes_per_s"], 15.754e9) << "the default";
  EXPECT_EQ(json["lower_bound"]["to_device_bytes"], 2200 * kMiB);
  EXPECT_EQ(json["lower_bound"]["from_device_bytes"], 1100 * kMiB);
  EXPECT_TRUE(json["lower_bound"]["kernels_over_capacity"].empty());
}

TEST_F(AnalyzeCommand, SaysWhatDoesNotFitTheMachine) {
  const test::Outcome outcome =
      run("analyze residual.swt --machine a100-40gb --set device.capacity=3600MiB");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("2 kernels need more than device memory, the first is "
                                     "kernel 5 Conv2(B)"));
}

TEST_F(AnalyzeCommand, DrawsThreePanels) {
  if (!plot::run_gnuplot("print 1\n")) GTEST_SKIP() << "gnuplot is not installed";
  const test::Outcome outcome = run("analyze residual.swt --plot \"it's.svg\"");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::string svg = test::read_file(folder_ / "it's.svg");
  for (const char* text : {"residual, batch size 4", "Memory during an iteration", "active tensors",
                           "Length of inactive periods", "out and back at 15.75 GB/s"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST_F(AnalyzeCommand, PlotWithoutGnuplotSaysWhatToInstall) {
  const test::Outcome outcome = run("analyze residual.swt --plot x.svg", "PATH=/nonexistent");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, StartsWith("spillway: gnuplot is not installed"));
  EXPECT_THAT(outcome.err, HasSubstr("gnuplot-nox"));
}

TEST_F(AnalyzeCommand, OneLineAndStatus2ForAMistake) {
  std::ofstream(folder_ / "garbage.json") << "{\"format\": \"kernel-trace/9\"}";
  const std::map<std::string, std::string> mistakes{
      {"garbage.json", "garbage.json"},
      {"residual.swt --bandwidth fast", "fast"},
      {"residual.swt --bandwidth 0", "--bandwidth"},
      {"residual.swt --machine a101", "a101"},
      {"residual.swt --set device.capacity=1GiB", "--set"},
      {"residual.swt --machine a100-40gb --set device.capacity=red", "red"},
      {"residual.swt --machine a100-40gb --set name=mine name=yours",
       "'name=yours' is one word too many"},
  };
  for (const auto& [arguments, named] : mistakes) {
    expect_refusal("analyze " + arguments, 2, named);
  }
}

TEST_F(AnalyzeCommand, OptionsMayStandBeforeTheTrace) {
  const std::string options = "--machine a100-40gb --set device.capacity=3600MiB ";
  EXPECT_THAT(run("analyze " + options + "residual.swt").out, HasSubstr("2 kernels need more"));
}

// What G10 section 3 finds, on its own traces; the figures are in docs/results.md.
TEST_F(AnalyzeCommand, RealTracesShowWhatG10Observes) {
  const std::filesystem::path traces = std::filesystem::path(SPILLWAY_SHARED_DIR) / "traces/a100";
  if (!std::filesystem::exists(traces)) GTEST_SKIP() << traces << " is not there";
  for (const char* name : {"bert-256", "vit-1280", "resnet152-1280", "senet154-1024"}) {
    const test::Outcome outcome =
        run(fmt::format("analyze --json '{}'", (traces / name).string() + ".json.gz"));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto json = nlohmann::json::parse(outcome.out);
    EXPECT_LT(json["active_share"]["mean"], 0.01) << name;
    EXPECT_LT(json["active_share"]["max"], 0.1) << name;
    const auto count = json["periods"]["count"].get<double>();
    EXPECT_GT(json["periods"]["longer_than"][4]["count"].get<double>() / count, 0.5)
        << name << ": periods of over 100 ms";
    EXPECT_GT(json["periods"]["hideable"].get<double>() / count, 0.6) << name;
  }
}

}  // namespace
}  // namespace spillway
