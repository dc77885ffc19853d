// The example as a person runs it: the same losses, to the last bit, however little memory there
// is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

using ::testing::HasSubstr;

class LossesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("gpt-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  struct Outcome {
    int status;
    std::string out;
    std::string err;
  };
  [[nodiscard]] Outcome run(const std::string& arguments) const {
    const std::string command = "cd '" + folder_.string() + "' && OPENBLAS_NUM_THREADS=1 '" +
                                GPT_PROGRAM + "' " + arguments + " >out 2>err";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("out"), read("err")};
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static double field(const std::string& json, const std::string& name) {
    const std::size_t at = json.find("\"" + name + "\": ");
    EXPECT_NE(at, std::string::npos) << name << " is not in " << json;
    return at == std::string::npos ? 0 : std::atof(json.c_str() + at + name.size() + 4);
  }

  std::filesystem::path folder_;
};

TEST_F(LossesTest, AreTheSameAtEveryBudgetAndUnderEveryPolicy) {
  const Outcome plain = run("--steps 4 --unlimited --json --losses plain");
  ASSERT_EQ(plain.status, 0) << plain.err;
  const std::string losses = read("plain");
  EXPECT_GT(losses.size(), 40U);
  const double peak_bytes = field(plain.out, "peak_bytes");
  EXPECT_GT(peak_bytes, 80e6);
  const std::map<std::string, std::vector<int>> percents = {
      {"base_uvm", {100, 50, 35}}, {"deepum", {35}}, {"g10", {35}}};
  for (const auto& [policy, budgets] : percents) {
    for (const int percent : budgets) {
      SCOPED_TRACE(policy + " " + std::to_string(percent) + " %");
      const auto device = static_cast<long>(peak_bytes * percent / 100);
      const Outcome with = run("--steps 4 --json --losses with --host-memory 512MiB --policy " +
                               policy + " --device-memory " + std::to_string(device));
      if (with.err.find("userfaultfd") != std::string::npos) {
        GTEST_SKIP() << with.err;
      }
      ASSERT_EQ(with.status, 0) << with.err;
      EXPECT_EQ(read("with"), losses);
      if (percent < 100) {
        EXPECT_GT(field(with.out, "host_to_device_bytes"), peak_bytes / 4);
      }
    }
  }
}

TEST_F(LossesTest, OptionsThatMakeNoSense) {
  EXPECT_EQ(run("--help").status, 0);
  EXPECT_EQ(run("--width 10 --heads 4").status, 2);
  EXPECT_THAT(run("--steps none").err, HasSubstr("--steps 'none'"));
  EXPECT_THAT(run("--steps").err, HasSubstr("needs a value"));
  EXPECT_THAT(run("--speed 3").err, HasSubstr("'--speed' is no option"));
  EXPECT_THAT(run("--unlimited --policy deepum").err, HasSubstr("--unlimited"));
  EXPECT_THAT(run("--device-memory large").err, HasSubstr("--device-memory 'large'"));
  EXPECT_EQ(run("--text /none/there --unlimited").status, 1);
  EXPECT_THAT(run("--text /none/there --unlimited").err, HasSubstr("/none/there"));
}

}  // namespace
