// What Prometheus is given: names by its conventions, a sample a process, nothing left out.
#include "runtime/report/run_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>

#include "runtime/record/run_fields.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunRecord record_of(std::uint64_t pid) {
  RunRecord record;
  record.pid = pid;
  record.policy = "deepum";
  record.memory.budget_bytes = {1, 2, 3};
  record.times.stalled_s = 1.5;
  record.moves.bytes[index_of(Tier::kHost)][index_of(Tier::kDevice)] = 7;
  return record;
}

TEST(RunMetrics, AreSamplesOfEachProcess) {
  const std::string text =
      metrics_text({{.so_far = record_of(20)}, {.so_far = record_of(30), .ended = true}});
  for (const char* const line :
       {"# TYPE spillway_memory_budget_bytes gauge\n",
        "spillway_memory_budget_bytes{pid=\"20\",tier=\"storage\"} 3\n",
        "# TYPE spillway_stalled_seconds_total counter\n",
        "spillway_stalled_seconds_total{pid=\"30\"} 1.5\n",
        "spillway_moved_bytes_total{pid=\"20\",from=\"host\",to=\"device\"} 7\n",
        "spillway_process_running{pid=\"20\",policy=\"deepum\"} 1\n",
        "spillway_process_running{pid=\"30\",policy=\"deepum\"} 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("spillway_memory_budget_bytes{pid=\"30\""))) << "it has ended";
}

TEST(RunMetrics, NamesAreByConvention) {
  std::istringstream lines(metrics_text({{.so_far = record_of(1)}}));
  std::set<std::string> families;
  const std::regex type("# TYPE (spillway_[a-z_]+) (counter|gauge)");
  const std::regex help("# HELP spillway_[a-z_]+ [A-Z].*\\.");
  const std::regex sample("(spillway_[a-z_]+)\\{pid=\"1\"[^}]*\\} [0-9.e+-]+");
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, type)) {
      family = match[1];
      EXPECT_TRUE(families.insert(family).second) << line;
      EXPECT_EQ(match[2] == "counter", family.ends_with("_total")) << line;
    } else if (std::regex_match(line, match, sample)) {
      EXPECT_EQ(match[1], family) << line;
    } else {
      EXPECT_TRUE(std::regex_match(line, help)) << line;
    }
  }
  EXPECT_GT(families.size(), 20U);
}

// Another value in each number: it is somewhere in the text.
TEST(RunMetrics, NoNumberOfTheRecordIsLeftOut) {
  RunRecord record;
  std::uint64_t next = 1'000'000;
  std::vector<std::uint64_t> values;
  for_each_field<RunRecord>([&](const auto& field) {
    auto& value = field.of(record);
    using Value = std::remove_reference_t<decltype(value)>;
    const auto note = [&](auto& number) {
      number = static_cast<std::remove_reference_t<decltype(number)>>(++next);
      values.push_back(next);
    };
    if constexpr (std::is_arithmetic_v<Value>) {
      note(value);
    } else if constexpr (std::is_same_v<Value, TierBytes>) {
      for (Bytes& bytes : value) note(bytes);
    } else if constexpr (std::is_same_v<Value, MovedBytes>) {
      for (const Route& route : kRoutes) note(value[index_of(route.from)][index_of(route.to)]);
    }
  });
  const std::string text = metrics_text({{.so_far = record}});
  constexpr std::uint64_t kVersion = 1'000'001;  // of the record's form: no number of the run
  for (const std::uint64_t value : values) {
    if (value != kVersion) {
      EXPECT_THAT(text, HasSubstr(std::to_string(value)));
    }
  }
}

}  // namespace
}  // namespace spillway
