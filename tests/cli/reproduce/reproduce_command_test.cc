// `spillway reproduce g10` on a reference and traces that the test makes.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "plot/gnuplot_process.h"
#include "trace/generate.h"
#include "trace/read.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr const char* kHeader = "figure,model,batch_size,policy,variation,metric,value\n";

class ReproduceCommand : public test::ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (!plot::run_gnuplot("print 1\n")) GTEST_SKIP() << "gnuplot is not installed";
    std::filesystem::create_directories(folder_ / "traces");
    // More than the 40 GiB of the machine, in few tensors.
    const Trace trace =
        generate_mlp({.batch_size = 64, .width = 16384, .layers = 20, .training = {}});
    ASSERT_TRUE(write_trace(trace, folder_ / "traces" / "mlp-64.swt").has_value());
    for (const Kernel& kernel : trace.kernels) ideal_s_ += to_seconds(kernel.duration_ns);
  }

  [[nodiscard]] test::Outcome reproduce(const std::string& rows, const std::string& options = "") {
    std::ofstream(folder_ / "reference.csv") << kHeader << rows;
    return run("reproduce g10 --traces traces --reference reference.csv --out out " + options);
  }
  // What `spillway simulate` says of the same case.
  [[nodiscard]] json simulated(const std::string& policy, const std::string& options = "") const {
    return json::parse(
        run(fmt::format("simulate --json traces/mlp-64.swt --policy {} {}", policy, options)).out);
  }
  static std::vector<json> objects(const std::string& text) {
    std::vector<json> found;
    for (const std::string& line : test::lines_of(text)) found.push_back(json::parse(line));
    return found;
  }

  double ideal_s_ = 0;
};

TEST_F(ReproduceCommand, NumbersBesideThePublished) {
  const double base_s = simulated("base_uvm")["iteration_s"];
  const test::Outcome outcome =
      reproduce(fmt::format("fig11_overall,mlp,64,ideal,,iteration_s,{:.9f}\n"
                            "fig11_overall,mlp,64,base_uvm,,iteration_s,{:.9f}\n"
                            "fig11_overall,mlp,64,deepum_plus,,iteration_s,1000\n"
                            "fig15_batch,mlp,64,ideal,,iteration_s,{:.9f}\n",
                            ideal_s_, base_s / 1.2, ideal_s_ * 1.01));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("figure 19: there is nothing to draw"));
  const std::vector<std::string> lines = test::lines_of(outcome.out);
  EXPECT_THAT(lines, Contains("Figure 11: Training throughput, normalized to ideal"));
  EXPECT_THAT(lines, Contains(AllOf(StartsWith("  mlp-64  base_uvm"), HasSubstr("+20.00 %"),
                                    Not(HasSubstr("MISS")))));
  EXPECT_THAT(lines, Contains(AllOf(StartsWith("  mlp-64  deepum_plus"), HasSubstr("MISS"))));
  EXPECT_THAT(lines, Contains(AllOf(StartsWith("  mlp-64  ideal"), HasSubstr("-0.99 %"),
                                    HasSubstr("MISS"))));
  // criterion, figure, rows, within, miss, not run
  EXPECT_THAT(lines, Contains(::testing::MatchesRegex("  ideal within 0.1 % +11 +1 +1 +0 +0 .*")));
  EXPECT_THAT(lines, Contains(::testing::MatchesRegex("  ideal within 0.1 % +15 +1 +0 +1 +0 .*")));
  EXPECT_THAT(lines, Contains(::testing::MatchesRegex("  base_uvm, .* 25 % +11 +2 +1 +1 +0 .*")));
  // Figure 13 adds base_uvm, flashneuron, deepum_plus and g10 of the one case.
  EXPECT_THAT(lines, Contains("5 simulations"));

  EXPECT_THAT(test::lines_of(test::read_file(folder_ / "out" / "rows.csv")),
              Contains(StartsWith("11,mlp,64,base_uvm,,iteration_s,")));
  EXPECT_THAT(objects(test::read_file(folder_ / "out" / "rows.jsonl")), SizeIs(4));
  for (const int figure : {11, 13, 15}) {
    const auto path = folder_ / "out" / fmt::format("figure{}.svg", figure);
    EXPECT_THAT(test::read_file(path), HasSubstr("G10 figure")) << path;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "figure19.svg"));
}

TEST_F(ReproduceCommand, EveryMetricAndVariationIsWhatSimulateSays) {
  const test::Outcome outcome = reproduce(
      "fig12_breakdown,mlp,64,deepum_plus,,stall_s,1\n"
      "fig12_breakdown,mlp,64,deepum_plus,,overlap_s,1\n"
      "fig12_breakdown,mlp,64,deepum_plus,,compute_s,1\n"
      "fig14_traffic,mlp,64,deepum_plus,,host_to_gpu_pages,1\n"
      "fig14_traffic,mlp,64,deepum_plus,,gpu_to_host_pages,1\n"
      "fig14_traffic,mlp,64,g10,,ssd_to_gpu_pages,0\n"
      "fig14_traffic,mlp,64,g10,,gpu_to_ssd_pages,1\n"
      "fig16_17_host_memory,mlp,64,g10,host_gib=16,iteration_s,1\n"
      "fig16_17_host_memory,mlp,64,deepum_plus,host_gib=64,iteration_s,1\n"
      "fig18_ssd_bandwidth,mlp,64,g10,ssd_gbps=12.8;pcie_gbps=32,iteration_s,1\n"
      "fig19_profiling_error,mlp,64,g10,error=0%,fraction_of_ideal,1\n"
      "fig19_profiling_error,mlp,64,g10,error=20%,fraction_of_ideal,1\n",
      "--json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<json> rows = objects(outcome.out);
  ASSERT_THAT(rows, SizeIs(12));
  const json deepum = simulated("deepum_plus");
  const json g10 = simulated("g10");
  const auto ours = [&](std::size_t row) { return rows[row]["ours"].get<double>(); };
  EXPECT_NEAR(ours(0), deepum["stall_s"], 1e-9);
  EXPECT_NEAR(ours(1), deepum["overlap_s"], 1e-9);
  EXPECT_NEAR(ours(2), ideal_s_ - deepum["overlap_s"].get<double>(), 1e-6);
  EXPECT_EQ(ours(3), deepum["traffic_bytes"]["host_to_device"].get<double>() / 4096);
  EXPECT_EQ(ours(4), deepum["traffic_bytes"]["device_to_host"].get<double>() / 4096);
  EXPECT_EQ(ours(5), g10["traffic_bytes"]["storage_to_device"].get<double>() / 4096);
  EXPECT_EQ(ours(6), g10["traffic_bytes"]["device_to_storage"].get<double>() / 4096);
  EXPECT_EQ(ours(7), simulated("g10", "--set host.capacity=16GiB")["iteration_s"]);
  EXPECT_EQ(ours(8), simulated("deepum_plus", "--set host.capacity=64GiB")["iteration_s"]);
  EXPECT_EQ(
      ours(9),
      simulated("g10",
                "--set link.bandwidth=32GB/s --set storage.bandwidth=12.8GB/s")["iteration_s"]);
  EXPECT_EQ(ours(10), g10["fraction_of_ideal"]);
  EXPECT_EQ(ours(11), simulated("g10", "--profiling-error 0.2")["fraction_of_ideal"]);
  EXPECT_TRUE(rows[5]["deviation"].is_null()) << "of 0 nothing is a fraction";
  EXPECT_EQ(rows[5]["verdict"], "");
  EXPECT_EQ(rows[8]["figure"], 17) << "16 compares g10, 17 the others";
  EXPECT_EQ(rows[7]["figure"], 16);
}

TEST_F(ReproduceCommand, WhatThePaperCannotRunMustNotRun) {
  // The weights alone are larger than the device: FlashNeuron, which keeps them there, cannot.
  const test::Outcome outcome = reproduce(
      "fig15_batch,mlp,64,flashneuron,,iteration_s,\n"
      "fig15_batch,mlp,64,base_uvm,,iteration_s,\n"
      "fig18_ssd_bandwidth,mlp,64,flashneuron,ssd_gbps=12.8;pcie_gbps=32,iteration_s,3\n",
      "--json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<json> rows = objects(outcome.out);
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0]["state"], "cannot run");
  EXPECT_EQ(rows[0]["verdict"], "within");
  EXPECT_EQ(rows[1]["state"], "ran");
  EXPECT_EQ(rows[1]["verdict"], "miss");
  EXPECT_EQ(rows[2]["state"], "cannot run");
  EXPECT_EQ(rows[2]["verdict"], "miss");
}

TEST_F(ReproduceCommand, MissingTracesAndPoliciesAreLinesAndTheRestGoesOn) {
  const test::Outcome outcome = reproduce(
      "fig15_batch,mlp,64,ideal,,iteration_s,1\n"
      "fig15_batch,vit,1024,ideal,,iteration_s,1\n"
      "fig15_batch,vit,1024,g10,,iteration_s,1\n"
      "fig15_batch,mlp,64,magic,,iteration_s,1\n"
      "fig99,mlp,64,ideal,,iteration_s,1\n",
      "--json --figure 15");
  EXPECT_EQ(outcome.status, 0);
  const std::vector<json> rows = objects(outcome.out);
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0]["state"], "ran");
  EXPECT_EQ(rows[1]["state"], "no trace");
  EXPECT_EQ(rows[1]["verdict"], "not run");
  EXPECT_TRUE(rows[1]["ours"].is_null());
  EXPECT_EQ(rows[2]["state"], "no trace");
  const std::vector<std::string> lines = test::lines_of(outcome.err);
  EXPECT_THAT(lines, SizeIs(2)) << outcome.err;
  EXPECT_THAT(lines, Contains(HasSubstr("no trace vit-1024.json.gz")));
  EXPECT_THAT(lines, Contains(HasSubstr("2 rows belong to no figure")));
}

TEST_F(ReproduceCommand, OnlyTheFiguresThatAreAskedFor) {
  const std::string rows =
      "fig11_overall,mlp,64,ideal,,iteration_s,1\n"
      "fig15_batch,mlp,64,ideal,,iteration_s,1\n"
      "fig16_17_host_memory,mlp,64,g10,host_gib=0,iteration_s,1\n";
  const test::Outcome outcome = reproduce(rows, "--json --figure 15,16");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(objects(outcome.out), SizeIs(2));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / "figure15.svg"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / "figure16.svg"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "figure11.svg"));
  EXPECT_EQ(outcome.out, reproduce(rows, "--json --figure 15,16 --jobs 1").out);
}

TEST_F(ReproduceCommand, OneLineForAMistake) {
  const std::string row = "fig15_batch,mlp,64,ideal,,iteration_s,1\n";
  expect_refusal(reproduce(row, "--figure 20"), 2, "--figure 20: the figures are 11 to 19");
  expect_refusal(reproduce(row + "fig15_batch,mlp,64\n"), 2, "reference.csv: line 3: 3 columns");
  expect_refusal(reproduce("fig15_batch,mlp,many,ideal,,iteration_s,1\n"), 2, "batch_size 'many'");
  expect_refusal(reproduce("fig15_batch,../mlp,64,ideal,,iteration_s,1\n"), 2, "model '../mlp'");
  expect_refusal(reproduce("fig15_batch,mlp,64,ideal,host=1,iteration_s,1\n"), 2, "'host=1'");
  expect_refusal(reproduce("fig15_batch,mlp,64,ideal,host_gib=1e9,iteration_s,1\n"), 2, "mlp-64");
  expect_refusal(reproduce("fig15_batch,mlp,64,ideal,,speed,1\n"), 2, "metric 'speed'");
  expect_refusal(reproduce("fig15_batch,mlp,64,ideal,,iteration_s,fast\n"), 2, "value 'fast'");
  expect_refusal(reproduce(""), 2, "there are no numbers");
  expect_refusal("reproduce g10 --traces traces --reference traces/mlp-64.swt", 2, "line 1");
  expect_refusal("reproduce g10 --traces nowhere --reference reference.csv", 2, "nowhere");
  expect_refusal("reproduce g10 --traces traces --reference nowhere.csv", 2, "nowhere.csv");
  expect_refusal("reproduce g10 --traces traces", 2, "--reference");
}

}  // namespace
}  // namespace spillway
