// `spillway analyze ...` as a person calls it: what it prints and draws, and one line for a
// mistake.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "analysis/example_traces.h"
#include "plot/gnuplot_process.h"
#include "trace/read.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int status = -1;
  std::string output;  // standard output and standard error
};

class AnalyzeCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("spillway-analyze-{}", getpid());
    std::filesystem::create_directories(folder_);
    Trace trace = test::ResidualBlock::trace();
    for (Tensor& tensor : trace.tensors) tensor.bytes *= kMiB;
    for (Kernel& kernel : trace.kernels) kernel.duration_ns *= kNsPerMs;
    trace_ = (folder_ / "residual.trace").string();
    const Status written = write_trace(trace, trace_);
    ASSERT_TRUE(written.has_value()) << written.error().message;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // `environment` stands before the program, as in a shell.
  static Outcome run(const std::string& arguments, const std::string& environment = "") {
    const std::string command =
        fmt::format("{} '{}' analyze {} 2>&1", environment, SPILLWAY_PROGRAM, arguments);
    Outcome outcome;
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) {
      ADD_FAILURE() << "cannot run " << command;
      return outcome;
    }
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
      outcome.output += static_cast<char>(c);
    }
    const int status = pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
  }
  static std::string read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  std::filesystem::path folder_;
  std::string trace_;
};

TEST_F(AnalyzeCommand, PrintsTheSummary) {
  const Outcome outcome = run("'" + trace_ + "' --bandwidth 20GB/s");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, StartsWith("residual, batch size 4\n9 kernels, 114 ms"));
  EXPECT_THAT(outcome.output, HasSubstr("11 GiB  at kernel 5 Conv2(B)"));
  EXPECT_THAT(outcome.output, HasSubstr("8.59 GiB  at kernel 5 Conv2(B)"));
  EXPECT_THAT(outcome.output, HasSubstr("inactive periods: 10, 2 of them wrap"));
  EXPECT_THAT(outcome.output, HasSubstr("at 20 GB/s each way: 3 (30 %)"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("at best on")));
}

TEST_F(AnalyzeCommand, JsonIsOneLineWithBytesAndNanoseconds) {
  const Outcome outcome =
      run("'" + trace_ + "' --json --machine a100-40gb --set device.capacity=9000MiB");
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(outcome.output);
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
  const Outcome outcome = run("'" + trace_ + "' --machine a100-40gb --set device.capacity=3600MiB");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("2 kernels need more than device memory, the first is "
                                        "kernel 5 Conv2(B)"));
}

TEST_F(AnalyzeCommand, DrawsThreePanels) {
  if (!plot::run_gnuplot("print 1\n")) GTEST_SKIP() << "gnuplot is not installed";
  const std::string path = (folder_ / "it's.svg").string();
  const Outcome outcome = run("'" + trace_ + "' --plot \"" + path + "\"");
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const std::string svg = read(path);
  for (const char* text : {"residual, batch size 4", "Memory during an iteration", "active tensors",
                           "Length of inactive periods", "out and back at 15.75 GB/s"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST_F(AnalyzeCommand, PlotWithoutGnuplotSaysWhatToInstall) {
  const Outcome outcome =
      run("'" + trace_ + "' --plot '" + (folder_ / "x.svg").string() + "'", "PATH=/nonexistent");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output, HasSubstr("spillway: gnuplot is not installed"));
  EXPECT_THAT(outcome.output, HasSubstr("gnuplot-nox"));
}

TEST_F(AnalyzeCommand, OneLineForAMistakeAndStatus2WhereAPersonCanCorrectIt) {
  const std::string garbage = (folder_ / "garbage.json").string();
  std::ofstream(garbage) << "{\"format\": \"kernel-trace/9\"}";
  const std::pair<std::string, int> mistakes[] = {
      {"'" + (folder_ / "missing.trace").string() + "'", 1},
      {"'" + garbage + "'", 2},
      {"'" + trace_ + "' --bandwidth fast", 2},
      {"'" + trace_ + "' --bandwidth 0", 2},
      {"'" + trace_ + "' --machine a101", 2},
      {"'" + trace_ + "' --set device.capacity=1GiB", 2},
      {"'" + trace_ + "' --machine a100-40gb --set device.capacity=red", 2},
  };
  for (const auto& [arguments, status] : mistakes) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, status) << arguments;
    EXPECT_THAT(outcome.output, StartsWith("spillway: ")) << arguments;
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  }
}

// What G10 section 3 finds, on its own traces; the figures are in docs/analysis.md.
TEST_F(AnalyzeCommand, RealTracesShowWhatG10Observes) {
  const std::filesystem::path traces = std::filesystem::path(SPILLWAY_SHARED_DIR) / "traces/a100";
  if (!std::filesystem::exists(traces)) GTEST_SKIP() << traces << " is not there";
  for (const char* name : {"bert-256", "vit-1280", "resnet152-1280", "senet154-1024"}) {
    const Outcome outcome = run(fmt::format("--json '{}'", (traces / name).string() + ".json.gz"));
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const auto json = nlohmann::json::parse(outcome.output);
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
