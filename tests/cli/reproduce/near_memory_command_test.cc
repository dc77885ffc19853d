// `spillway reproduce near-memory`: what it prints and writes.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "plot/gnuplot_process.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class NearMemoryCommand : public test::ProgramTest {};

TEST_F(NearMemoryCommand, PrintsOursBesideThePapers) {
  if (!plot::run_gnuplot("print 1\n")) GTEST_SKIP() << "gnuplot is not installed";
  const test::Outcome outcome = run("reproduce near-memory --out out");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const std::vector<std::string> lines = test::lines_of(outcome.out);
  EXPECT_THAT(lines, Contains(StartsWith("One number is fitted")));
  EXPECT_THAT(lines, Contains("Table 5: Adam, all in memory"));
  EXPECT_THAT(lines,
              Contains(AllOf(StartsWith("  AXDIMM        update  789.38  "), HasSubstr("MP/s"))));
  EXPECT_THAT(lines, Contains(StartsWith("  GPT-3 13B    nvme peak          153.10  ")));
  EXPECT_THAT(lines, Contains(StartsWith("  16 KiB  ")));
  EXPECT_THAT(lines, Contains(StartsWith("Today: Parts of today")));
  EXPECT_THAT(lines, Contains(StartsWith("gradients to memory   ....")));
  EXPECT_THAT(lines, Contains(StartsWith("47 of 47 numbers are where they must be")));
  EXPECT_THAT(test::read_file(folder_ / "out" / "figure4.svg"), HasSubstr("Near-memory figure 4"));

  const test::Outcome again = run("reproduce near-memory --out out --json");
  ASSERT_EQ(again.status, 0) << again.err;
  const std::string rows = test::read_file(folder_ / "out" / "rows.jsonl");
  EXPECT_EQ(again.out, rows) << "always the same";
  const std::vector<std::string> objects = test::lines_of(again.out);
  const json first = json::parse(objects.front());
  EXPECT_EQ(first["table"], "table 5");
  EXPECT_EQ(first["published"], 140.32);
  EXPECT_EQ(first["verdict"], "within");
  EXPECT_THAT(test::lines_of(test::read_file(folder_ / "out" / "rows.csv")),
              SizeIs(objects.size() + 1));
}

TEST_F(NearMemoryCommand, WritesNothingWithoutOut) {
  const test::Outcome outcome = run("reproduce near-memory --json");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  for (const auto& file : std::filesystem::directory_iterator(folder_)) {
    EXPECT_THAT(file.path().filename().string(), testing::StartsWith("standard-"));  // the test's
  }
}

TEST_F(NearMemoryCommand, OneLineForAFolderThatCannotBe) {
  std::ofstream(folder_ / "file") << "x";
  expect_refusal("reproduce near-memory --out file/out", 1, "--out: file/out: ");
  expect_refusal("reproduce near-memory --traces x", 2, "--traces");
}

}  // namespace
}  // namespace spillway
