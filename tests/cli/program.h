// Running the program as a person does: arguments in, exit status and both outputs back.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace spillway::test {

struct Outcome {
  int status = -1;
  std::string out;  // standard output
  std::string err;  // standard error
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A folder of its own for each test, gone afterwards.
class ProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              fmt::format("spillway-{}-{}-{}", info->test_suite_name(), info->name(), getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // `arguments` as in a shell; relative paths are in the test's folder. `environment` stands before
  // the program: "NAME=VALUE".
  [[nodiscard]] Outcome run(const std::string& arguments,
                            const std::string& environment = "") const {
    const auto out = folder_ / "standard-output";
    const auto err = folder_ / "standard-error";
    const std::string command =
        fmt::format("cd '{}' && {} '{}' {} >'{}' 2>'{}'", folder_.string(), environment,
                    SPILLWAY_PROGRAM, arguments, out.string(), err.string());
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
  }

  // Refused: nothing is printed but one line, which says what is wrong.
  static void expect_refusal(const Outcome& outcome, int status, const std::string& what) {
    EXPECT_EQ(outcome.status, status) << what;
    EXPECT_THAT(outcome.err, ::testing::StartsWith("spillway: ")) << what;
    EXPECT_THAT(outcome.err, ::testing::HasSubstr(what));
    EXPECT_THAT(lines_of(outcome.err), ::testing::SizeIs(1)) << outcome.err;
    EXPECT_THAT(outcome.out, ::testing::IsEmpty()) << what;
  }
  void expect_refusal(const std::string& arguments, int status, const std::string& what) const {
    SCOPED_TRACE(arguments);
    expect_refusal(run(arguments), status, what);
  }

  std::filesystem::path folder_;
};

}  // namespace spillway::test
