// Variations, reference rows, the fewest simulations for them, and verdicts by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "machine/load.h"
#include "runtime/reproduce/compare.h"
#include "runtime/reproduce/figure/draw.h"
#include "trace/generate.h"
#include "trace/read.h"

namespace spillway::reproduce {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Variation, ReadsAndWritesTheSame) {
  for (const char* text :
       {"", "host_gib=0", "host_gib=96", "error=5%", "ssd_gbps=6.4;pcie_gbps=32"}) {
    const Result<Variation> variation = parse_variation(text);
    ASSERT_TRUE(variation.has_value()) << text;
    EXPECT_EQ(to_text(*variation), text);
  }
  EXPECT_EQ(parse_variation("host_gib=96")->host_gib, 96);
  EXPECT_EQ(parse_variation("error=5%")->error_percent, 5);
  EXPECT_FALSE(parse_variation("error=5%")->host_gib.has_value());
}

TEST(Variation, RefusesWhatItDoesNotKnow) {
  for (const char* text :
       {"host", "host_gib", "host_gib=", "host_gib=-1", "host_gib=nan", "host_gib=1GiB", "error=5",
        "x=1", "host_gib=1;host_gib=2", ";", "host_gib=1;;error=5%"}) {
    EXPECT_FALSE(parse_variation(text).has_value()) << text;
  }
}

TEST(Variation, ChangesWhatItSaysAndNothingElse) {
  const Machine plain = *load_machine("a100-40gb");
  Machine machine = plain;
  SimulationOptions options;
  ASSERT_TRUE(apply_variation(*parse_variation("ssd_gbps=6.4;pcie_gbps=32"), machine, options));
  EXPECT_EQ(machine.storage.read_bytes_per_s, 6.4e9);
  EXPECT_EQ(machine.storage.write_bytes_per_s, 6.4e9);
  EXPECT_EQ(machine.link.to_device_bytes_per_s, 32e9);
  EXPECT_EQ(machine.link.from_device_bytes_per_s, 32e9);
  EXPECT_EQ(machine.host.capacity_bytes, plain.host.capacity_bytes);
  machine = plain;
  ASSERT_TRUE(apply_variation(*parse_variation("host_gib=0;error=20%"), machine, options));
  EXPECT_EQ(machine.host.capacity_bytes, 0);
  EXPECT_DOUBLE_EQ(options.policy.profiling_error, 0.2);
  machine.host = plain.host;
  EXPECT_EQ(to_toml(machine), to_toml(plain));
}

constexpr const char* kHeader = "figure,model,batch_size,policy,variation,metric,value\n";

TEST(Reference, ReadsValuesAndWhatCannotRun) {
  const auto rows = parse_reference(std::string(kHeader) +
                                        "fig11_overall,bert,256,g10,,iteration_s,7.311024\r\n\n"
                                        "fig11_overall,vit,1280,flashneuron,,iteration_s,\n",
                                    "x.csv");
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  ASSERT_THAT(*rows, SizeIs(2));
  EXPECT_EQ((*rows)[0].subject.model, "bert");
  EXPECT_EQ((*rows)[0].subject.batch_size, 256);
  EXPECT_EQ((*rows)[0].value, 7.311024);
  EXPECT_FALSE((*rows)[1].value.has_value());
}

TEST(Reference, SaysWhereItIsWrong) {
  const auto bad = parse_reference(std::string(kHeader) + "a,b,1,c,,iteration_s,1\na,b,1\n", "x");
  ASSERT_FALSE(bad.has_value());
  EXPECT_THAT(bad.error().message, HasSubstr("x: line 3: "));
}

TEST(Reference, EveryPublishedRowBelongsToOneFigure) {
  const std::filesystem::path path =
      std::filesystem::path(SPILLWAY_SHARED_DIR) / "reference" / "g10.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "there is no " << path;
  const auto rows = read_reference(path);
  ASSERT_TRUE(rows.has_value()) << rows.error().message;
  EXPECT_THAT(unclaimed(*rows), IsEmpty());
  for (const ReferenceRow& row : *rows) {
    EXPECT_EQ(std::count_if(figures().begin(), figures().end(),
                            [&](const FigureDefinition& figure) { return belongs(row, figure); }),
              1);
  }
}

class StudyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(testing::TempDir()) / fmt::format("spillway-study-{}", getpid());
    std::filesystem::create_directories(folder_);
    const Trace trace =
        generate_mlp({.batch_size = 8, .inputs = 256, .width = 1024, .layers = 4, .training = {}});
    ASSERT_TRUE(write_trace(trace, folder_ / "mlp-8.swt").has_value());
    for (const Kernel& kernel : trace.kernels) ideal_s_ += to_seconds(kernel.duration_ns);
    machine_ = *load_machine("a100-40gb");
    machine_.device.capacity_bytes = 20 * kMiB;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static Case subject(std::string policy, std::string_view variation = "") {
    return {"mlp", 8, std::move(policy), *parse_variation(variation)};
  }
  [[nodiscard]] Study run(const std::vector<Case>& cases) const {
    Result<Study> study = Study::plan(cases, folder_, machine_);
    EXPECT_TRUE(study.has_value());
    study->run(2, {});
    return std::move(*study);
  }

  std::filesystem::path folder_;
  Machine machine_;
  double ideal_s_ = 0;
};

TEST_F(StudyTest, RunsEqualSimulationsOnce) {
  const Study study = run({subject("base_uvm"), subject("base_uvm"),
                           subject("base_uvm", "host_gib=128"),  // as the machine has it
                           subject("base_uvm", "error=0%"), subject("base_uvm", "host_gib=64"),
                           subject("g10_gds", "host_gib=16"), subject("g10_gds", "host_gib=32")});
  EXPECT_EQ(study.simulations(), 3) << "g10_gds does not use host memory";
  const auto* plain = study.outcome(subject("base_uvm")).simulation;
  EXPECT_EQ(study.outcome(subject("base_uvm", "host_gib=128")).simulation, plain);
  EXPECT_NE(study.outcome(subject("base_uvm", "host_gib=64")).simulation, plain);
}

TEST_F(StudyTest, SaysOnceWhatIsMissing) {
  std::ofstream(folder_ / "broken-1.json") << "{";
  const Study study = run({subject("magic"),
                           subject("magic", "host_gib=1"),
                           {"vit", 1024, "ideal", {}},
                           {"vit", 1024, "g10", {}},
                           {"broken", 1, "ideal", {}},
                           {"broken", 1, "base_uvm", {}},
                           subject("ideal")});
  EXPECT_EQ(study.outcome(subject("magic")).state, CaseState::kNoPolicy);
  EXPECT_EQ(study.outcome({"vit", 1024, "g10", {}}).state, CaseState::kNoTrace);
  EXPECT_EQ(study.outcome({"broken", 1, "ideal", {}}).state, CaseState::kNoTrace);
  EXPECT_EQ(study.outcome(subject("ideal")).state, CaseState::kRan);
  EXPECT_THAT(study.complaints(),
              testing::UnorderedElementsAre(HasSubstr("'magic'"), HasSubstr("vit-1024"),
                                            HasSubstr("broken-1.json")));
}

// Rows of figure 15 for the same case, judged against made-up published times.
TEST_F(StudyTest, VerdictsAtTheEdgesOfTheCriteria) {
  const Study study = run({subject("ideal"), subject("base_uvm"), subject("g10")});
  const auto time_s = [&](const char* policy) {
    return to_seconds(study.outcome(subject(policy)).simulation->result->iteration_ns);
  };
  EXPECT_DOUBLE_EQ(time_s("ideal"), ideal_s_);
  struct Expectation {
    const char* policy;
    double ours_over_published;
    Verdict verdict;
  };
  const std::vector<Expectation> expectations{
      {"ideal", 1.0009, Verdict::kWithin},   {"ideal", 1.0011, Verdict::kMiss},
      {"ideal", 0.9991, Verdict::kWithin},   {"ideal", 0.9989, Verdict::kMiss},
      {"base_uvm", 1.249, Verdict::kWithin}, {"base_uvm", 1.251, Verdict::kMiss},
      {"base_uvm", 0.751, Verdict::kWithin}, {"base_uvm", 0.749, Verdict::kMiss},
      {"g10", 1.099, Verdict::kWithin},      {"g10", 1.101, Verdict::kMiss},
      {"g10", 0.1, Verdict::kWithin},
  };
  std::vector<ReferenceRow> reference;
  for (const Expectation& expected : expectations) {
    reference.push_back({"fig15_batch", subject(expected.policy), Metric::kIterationS,
                         time_s(expected.policy) / expected.ours_over_published});
  }
  std::vector<const FigureDefinition*> all;
  for (const FigureDefinition& figure : figures()) all.push_back(&figure);
  const std::vector<ComparedRow> rows = compare(all, reference, study);
  ASSERT_EQ(rows.size(), expectations.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].verdict, expectations[i].verdict) << i;
    EXPECT_NEAR(*rows[i].deviation, expectations[i].ours_over_published - 1, 1e-9) << i;
  }
  const std::vector<CriterionSummary> summaries = summarize(rows);
  ASSERT_THAT(summaries, SizeIs(3));
  for (const CriterionSummary& summary : summaries) {
    EXPECT_EQ(summary.figure, 15);
    EXPECT_EQ(summary.within, 2);
    EXPECT_EQ(summary.missed, summary.criterion->faster ? 2 : 1);
    EXPECT_EQ(summary.not_run, 0);
  }
  EXPECT_NEAR(*summaries[1].slowest, 0.251, 1e-9);
  EXPECT_NEAR(*summaries[1].fastest, -0.251, 1e-9);
}

TEST_F(StudyTest, AFractionOfIdealIsJudgedAsATime) {
  const Study study = run({subject("g10", "error=0%"), subject("g10", "error=10%")});
  const auto fraction = [&](const char* variation) {
    return study.outcome(subject("g10", variation)).simulation->result->fraction_of_ideal();
  };
  // Half the published fraction is twice the time: 100 % slower, a deviation of -50 %.
  const std::vector<ReferenceRow> reference{
      {"fig19_profiling_error", subject("g10", "error=0%"), Metric::kFractionOfIdeal,
       2 * fraction("error=0%")},
      {"fig19_profiling_error", subject("g10", "error=10%"), Metric::kFractionOfIdeal,
       fraction("error=10%") / 1.5}};
  const FigureDefinition* figure = &figures().back();
  const std::vector<ComparedRow> rows = compare({&figure, 1}, reference, study);
  EXPECT_NEAR(*rows[0].deviation, -0.5, 1e-9);
  EXPECT_NEAR(*rows[0].slowdown, 1.0, 1e-9);
  EXPECT_EQ(rows[0].verdict, Verdict::kMiss);
  EXPECT_EQ(rows[1].verdict, Verdict::kWithin);
  EXPECT_NEAR(*worst_cost_of_error(rows, 20), fraction("error=0%") / fraction("error=10%") - 1,
              1e-9);
  EXPECT_FALSE(worst_cost_of_error(rows, 5).has_value());
}

TEST_F(StudyTest, DrawsOursBesideThePublished) {
  const std::vector<ReferenceRow> reference{
      {"fig11_overall", subject("ideal"), Metric::kIterationS, 1.0},
      {"fig11_overall", subject("base_uvm"), Metric::kIterationS, 4.0},
      {"fig15_batch", subject("base_uvm"), Metric::kIterationS, 4.0}};
  const Study study = run({subject("ideal"), subject("base_uvm")});
  const auto figure = draw(figures()[0], reference, study);
  ASSERT_TRUE(figure.has_value());
  ASSERT_THAT(figure->panels, SizeIs(2));
  const auto& ours = std::get<plot::BarChart>(figure->panels[0]);
  const auto& published = std::get<plot::BarChart>(figure->panels[1]);
  ASSERT_THAT(ours.series, SizeIs(2));
  EXPECT_EQ(ours.series[0].name, "Base UVM");
  EXPECT_DOUBLE_EQ(ours.series[0].values[0],
                   study.outcome(subject("base_uvm")).simulation->result->fraction_of_ideal());
  EXPECT_DOUBLE_EQ(published.series[0].values[0], 0.25);
  EXPECT_DOUBLE_EQ(ours.series[1].values[0], 1);

  const auto lines = draw(figures()[4], reference, study);
  ASSERT_TRUE(lines.has_value());
  const auto& panel = std::get<plot::XyChart>(lines->panels[0]);
  ASSERT_THAT(panel.series, SizeIs(2)) << "ours and the published";
  EXPECT_DOUBLE_EQ(panel.series[1].y[0], 8 / 4.0) << "samples a second";
  EXPECT_FALSE(draw(figures()[8], reference, study).has_value());
}

}  // namespace
}  // namespace spillway::reproduce
