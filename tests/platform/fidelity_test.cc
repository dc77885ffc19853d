// The published times of the G10 artifact (figure 15) on its smaller traces, where the checkout has
// them beside it: a change of policy, engine or simulator that leaves them shows here.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "machine/load.h"
#include "platform/run_policy.h"
#include "trace/read.h"

namespace spillway {
namespace {

struct Published {
  std::string model;
  int batch_size;
  std::string policy;
};

std::vector<Published> all_published() {
  std::vector<Published> all;
  for (const auto& [model, batch_size] :
       {std::pair{"bert", 256}, std::pair{"vit", 512}, std::pair{"inceptionv3", 512},
        std::pair{"resnet152", 256}}) {
    for (const char* policy : {"ideal", "base_uvm", "deepum_plus", "flashneuron", "g10"}) {
      all.push_back({model, batch_size, policy});
    }
  }
  return all;
}

std::optional<double> published_s(const std::filesystem::path& csv, const Published& which) {
  const std::string begin = fmt::format("fig15_batch,{},{},{},,iteration_s,", which.model,
                                        which.batch_size, which.policy);
  std::ifstream file(csv);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(begin)) return std::stod(line.substr(begin.size()));
  }
  return std::nullopt;
}

class Fidelity : public testing::TestWithParam<Published> {};
INSTANTIATE_TEST_SUITE_P(Figure15, Fidelity, testing::ValuesIn(all_published()),
                         [](const auto& each) {
                           return fmt::format("{}_{}_{}", each.param.model, each.param.batch_size,
                                              each.param.policy);
                         });

// ideal within 0.1 %; base_uvm, deepum_plus and flashneuron within 25 % either way; g10 at most 10
// % slower.
TEST_P(Fidelity, IterationTime) {
  const Published& which = GetParam();
  const std::filesystem::path shared(SPILLWAY_SHARED_DIR);
  const std::filesystem::path file =
      shared / "traces" / "a100" / fmt::format("{}-{}.json.gz", which.model, which.batch_size);
  const std::filesystem::path csv = shared / "reference" / "g10.csv";
  if (!std::filesystem::exists(file) || !std::filesystem::exists(csv)) {
    GTEST_SKIP() << "no recorded traces or no published times in " << shared;
  }
  const std::optional<double> expected_s = published_s(csv, which);
  ASSERT_TRUE(expected_s.has_value());
  const Result<Trace> trace = read_trace(file);
  ASSERT_TRUE(trace.has_value()) << trace.error().message;
  const Machine machine = load_machine("a100-40gb").value();
  const Result<test::PolicyRun> run = test::run_policy(*trace, machine, which.policy);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  const double ratio = to_seconds(run->iteration_ns) / *expected_s;
  RecordProperty("of_published", fmt::format("{:.4f}", ratio));
  if (which.policy == "ideal") {
    EXPECT_NEAR(ratio, 1, 0.001);
  } else if (which.policy == "g10") {
    EXPECT_LE(ratio, 1.10);
  } else {
    EXPECT_NEAR(ratio, 1, 0.25);
  }
}

}  // namespace
}  // namespace spillway
