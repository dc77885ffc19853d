// `spillway estimate` of a small trace on machines made for it. tests/python/test_estimate.py has
// programs.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "analysis/layered_step.h"
#include "cli/program.h"
#include "trace/read.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class EstimateCommand : public test::ProgramTest {
 protected:
  // Two weights of 64 MiB, each of which a kernel of 10 ms changes.
  void SetUp() override {
    ProgramTest::SetUp();
    write_step("step.swt", "");
    test_machine("small", "96MiB", "1GiB");
    test_machine("tiny", "96MiB", "0");
    test_machine("large", "146MiB", "1GiB");
  }
  void write_step(const std::string& name, const std::string& device) {
    Trace t;
    t.device = device;
    t.tensors = {{64 * kMiB, true, false}, {64 * kMiB, true, false}};
    for (const TensorId id : {0U, 1U}) {
      t.kernels.push_back({.name = fmt::format("update{}", id),
                           .duration_ns = 10'000'000,
                           .reads = {id},
                           .writes = {id}});
    }
    ASSERT_TRUE(write_trace(t, folder_ / name).has_value());
  }
  void test_machine(const std::string& name, const std::string& device, const std::string& host) {
    std::ofstream(folder_ / (name + ".toml")) << fmt::format(
        "name = \"{}\"\nsource = \"made up\"\n[device]\ncapacity = \"{}\"\n[host]\n"
        "capacity = \"{}\"\n[link]\nbandwidth = \"1024 MiB/s\"\n",
        name, device, host);
  }
  std::vector<json> estimated(const std::string& arguments, int status = 0) {
    const test::Outcome outcome = run("estimate --json " + arguments);
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_THAT(outcome.err, IsEmpty());
    std::vector<json> rows;
    for (const std::string& line : test::lines_of(outcome.out)) rows.push_back(json::parse(line));
    return rows;
  }
};

// 128 MiB, and at least 16 of room.
TEST_F(EstimateCommand, StepThatFitsTakesItsKernelsTime) {
  const std::vector<json> rows = estimated("--machine large.toml step.swt");
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0]["machine"], "large");
  EXPECT_EQ(rows[0]["peak_bytes"], 128 * kMiB);
  EXPECT_EQ(rows[0]["enough_bytes"], 144 * kMiB);
  EXPECT_EQ(rows[0]["fits"], "yes");
  EXPECT_DOUBLE_EQ(rows[0]["in_memory_s"].get<double>(), 0.02);
  EXPECT_DOUBLE_EQ(rows[0]["step_s"].get<double>(), 0.02);
  EXPECT_EQ(rows[0]["host_peak_bytes"], 0);
  EXPECT_EQ(rows[0]["limited_by"], "computation");
}

// What exceeds 96 MiB, a quarter of what there is, goes out and comes back, at 1 GiB/s.
TEST_F(EstimateCommand, StepThatDoesNotFitWaitsForTheLink) {
  const std::vector<json> rows = estimated("--machine small.toml step.swt");
  ASSERT_THAT(rows, SizeIs(1));
  const json& row = rows[0];
  EXPECT_EQ(row["fits"], "no");
  EXPECT_DOUBLE_EQ(row["in_memory_s"].get<double>(), 0.02);
  const auto in_bytes = row["to_device_bytes"].get<double>();
  EXPECT_GE(in_bytes, 32 * kMiB);
  EXPECT_LE(in_bytes, 128 * kMiB);
  const auto step_s = row["step_s"].get<double>();
  EXPECT_GE(step_s, in_bytes / kGiB);
  EXPECT_LE(step_s, 0.02 + 2 * 0.125);
  EXPECT_NEAR(row["slowdown"].get<double>(), step_s / 0.02, 1e-9);
  EXPECT_GE(row["host_peak_bytes"].get<Bytes>(), 32 * kMiB);
  EXPECT_LE(row["host_peak_bytes"].get<Bytes>(), 128 * kMiB);
  EXPECT_EQ(row["limited_by"], "link");
}

TEST_F(EstimateCommand, SaysThatHostMemoryDoesNotDoEither) {
  const std::vector<json> rows = estimated("--machine tiny.toml step.swt", 1);
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0]["step_s"], nullptr);
  EXPECT_THAT(rows[0]["cannot_run"].get<std::string>(), HasSubstr("0 B of host memory"));
  const test::Outcome text = run("estimate --machine tiny.toml,large.toml step.swt");
  EXPECT_EQ(text.status, 0) << "one of them can";
  EXPECT_THAT(text.out, HasSubstr("cannot run: out of memory"));
}

TEST_F(EstimateCommand, BudgetsStandForTheMachines) {
  const std::vector<json> rows = estimated(
      "--machine tiny.toml,large.toml --device-memory 128MiB --host-memory 2GiB step.swt");
  ASSERT_THAT(rows, SizeIs(2));
  for (const json& row : rows) {
    EXPECT_EQ(row["device_memory_bytes"], 128 * kMiB);
    EXPECT_EQ(row["host_memory_bytes"], 2 * kGiB);
    EXPECT_EQ(row["fits"], "barely");
  }
}

// Eight layers in MiB and ms (analysis/layered_step.h): 1044 MiB, with checkpointing 386, and 24 ms
// more than 40 of the forward pass, 80 of the backward pass and 9 others.
TEST_F(EstimateCommand, CheckpointingByHandStandsBeside) {
  Trace t = test::layered_step(8);
  for (Tensor& tensor : t.tensors) tensor.bytes *= kMiB;
  for (Kernel& kernel : t.kernels) kernel.duration_ns *= 1'000'000;
  ASSERT_TRUE(write_trace(t, folder_ / "layers.swt").has_value());
  test_machine("card", "1000MiB", "4GiB");
  const std::vector<json> rows = estimated("--machine card.toml layers.swt");
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0]["fits"], "no");
  EXPECT_EQ(rows[0]["peak_bytes"], 1044 * kMiB);
  EXPECT_DOUBLE_EQ(rows[0]["in_memory_s"].get<double>(), 0.129);
  EXPECT_EQ(rows[0]["checkpointed_peak_bytes"], 386 * kMiB);
  EXPECT_EQ(rows[0]["checkpointed_fits"], "yes");
  EXPECT_DOUBLE_EQ(rows[0]["checkpointed_step_s"].get<double>(), 0.153);
  EXPECT_FALSE(rows[0].contains("largest_batch")) << "only one batch is known";
  const test::Outcome text = run("estimate --machine card.toml --html page.html layers.swt");
  EXPECT_THAT(text.out, HasSubstr("checkpointed  its step"));
  EXPECT_THAT(text.out, HasSubstr("Checkpointing by hand is of 8 layers"));
  EXPECT_THAT(test::read_file(folder_ / "page.html"), HasSubstr("<td>386 MiB</td>"));
}

TEST_F(EstimateCommand, SaysThatThereIsNothingToCheckpoint) {
  const test::Outcome text = run("estimate --machine large.toml step.swt");
  EXPECT_THAT(text.out, Not(HasSubstr("its step")));
  EXPECT_THAT(text.out, HasSubstr("Checkpointing by hand is not estimated: nothing was found"));
}

TEST_F(EstimateCommand, TimesOfAnotherDeviceAreNotTaken) {
  write_step("h100.swt", "NVIDIA H100 80GB HBM3");
  const std::vector<json> rows = estimated("--machine h100,h100-80gb,h200 h100.swt");
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_TRUE(rows[0]["step_s"].is_number());
  EXPECT_TRUE(rows[1]["step_s"].is_number());
  EXPECT_EQ(rows[2]["step_s"], nullptr);
  EXPECT_EQ(rows[2]["fits"], "yes");
}

TEST_F(EstimateCommand, WritesAPage) {
  const test::Outcome outcome =
      run("estimate --machine small.toml,large.toml --html page.html step.swt");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::string page = test::read_file(folder_ / "page.html");
  EXPECT_THAT(page, HasSubstr("<title>Spillway: estimate of a step</title>"));
  EXPECT_THAT(page, HasSubstr("<td>small</td>"));
  EXPECT_THAT(page, HasSubstr("made up"));
  EXPECT_THAT(page, AnyOf(HasSubstr("class=\"chart\""), HasSubstr("No chart: ")));
}

TEST_F(EstimateCommand, MistakesAreOneLine) {
  expect_refusal("estimate", 2, "no program");
  expect_refusal("estimate none.swt", 2, "none.swt");
  expect_refusal("estimate --machine h300 step.swt", 2, "h300");
  expect_refusal("estimate --policy best step.swt", 2, "--policy: ");
  expect_refusal("estimate --html /nowhere/page.html step.swt", 2, "/nowhere/page.html");
  expect_refusal("estimate --batch 8 -- python train.py", 2, "name two sizes");
  expect_refusal("estimate --batch 8,16 -- python train.py", 2, "{batch}");
  expect_refusal("estimate --machine large.toml -- python train.py", 2,
                 "it does not say how fast its GPU is");
}

}  // namespace
}  // namespace spillway
