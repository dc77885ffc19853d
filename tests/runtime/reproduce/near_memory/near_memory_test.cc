// What the near-memory model must reach: the paper's tables 5 and 6. And how its results are
// written.
#include "runtime/reproduce/near_memory/near_memory.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "runtime/reproduce/near_memory/near_memory_published.h"
#include "runtime/reproduce/near_memory/near_memory_timeline.h"

namespace spillway::reproduce {
namespace {

using sim::near_memory::Lane;
using ::testing::HasSubstr;

// One study for all: it is always the same.
class NearMemoryGoals : public ::testing::Test {
 protected:
  static const NearStudy& study() {
    static const NearStudy kStudy = [] {
      std::size_t done = 0;
      Result<NearStudy> study = run_near_memory([&](std::size_t steps) {
        EXPECT_EQ(steps, done + 1);
        done = steps;
      });
      EXPECT_EQ(done, near_memory_steps());
      return study ? std::move(*study) : NearStudy{};
    }();
    return kStudy;
  }
  static const NearTable& table(std::string_view name) {
    for (const NearTable& table : study().tables) {
      if (table.name == name) return table;
    }
    static const NearTable kNone;
    return kNone;
  }
  static double number(std::string_view of, std::string_view subject, std::string_view metric) {
    for (const NearRow& row : table(of).rows) {
      if (row.subject == subject && row.metric == metric) return row.ours;
    }
    ADD_FAILURE() << of << ": " << subject << ", " << metric << " is not there";
    return 0;
  }
};

TEST_F(NearMemoryGoals, Table5Within5Percent) {
  EXPECT_NEAR(number("table 5", "CPU baseline", "update_mp_per_s") / 140.32, 1, 0.05);
  EXPECT_NEAR(number("table 5", "AXDIMM", "update_mp_per_s") / 789.38, 1, 0.05);
}

TEST_F(NearMemoryGoals, Table6Within15PercentAndItsSpeedupsWithinATenth) {
  const NearTable& table6 = table("table 6");
  EXPECT_EQ(table6.rows.size(), near_table6().size() * 9);
  for (const NearRow& row : table6.rows) {
    ASSERT_TRUE(row.published && row.limit) << row.subject << " " << row.metric;
    const bool is_speedup = row.metric.ends_with("speedup");
    EXPECT_EQ(row.limit->is_fraction, !is_speedup);
    EXPECT_NEAR(row.ours, *row.published, is_speedup ? 0.1 : 0.15 * *row.published)
        << row.subject << " " << row.metric;
    EXPECT_EQ(row.verdict(), Verdict::kWithin);
  }
}

TEST_F(NearMemoryGoals, BlocksGrowFasterUpToTheOneThatThePaperChose) {
  const auto two = [](const char* block) {
    return number("section 3.4", block, "two_channels_mp_per_s");
  };
  EXPECT_GT(two("16 KiB"), 1.3 * two("1 KiB"));
  EXPECT_LT(two("64 KiB"), 1.03 * two("16 KiB"));
  EXPECT_DOUBLE_EQ(two("4 KiB"), 2 * number("section 3.4", "4 KiB", "one_channel_mp_per_s"));
  EXPECT_LT(number("section 3.4", "16 KiB", "two_channels_single_buffer_mp_per_s"), two("16 KiB"));
}

TEST_F(NearMemoryGoals, WhatIsChosenIsSeenInWhatItChanges) {
  const auto large = [](const char* change) {
    return number("table 6, chosen numbers", change, "large_device_s");
  };
  EXPECT_LT(large("channels by size, a stream for each direction"), 0.6 * large("as modelled"))
      << "both channels at once";
  EXPECT_NEAR(number("table 6", "GPT-3 Large", "device_total_s"), large("as modelled"), 1e-9);
  EXPECT_GT(large("memory's link 20 % slower"), large("as modelled"));
}

TEST_F(NearMemoryGoals, TheTimelineHasALineForEachLane) {
  const std::string text = timeline_text(study().timeline, 60);
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), sim::near_memory::kLanes);
  for (const std::string& line : lines) {
    EXPECT_EQ(line.size(), 22 + 61);
    EXPECT_THAT(line, HasSubstr("|"));
  }
  const auto figure = timeline_figure(study().timeline, "title");
  EXPECT_EQ(figure.panels.size(), sim::near_memory::kLanes);
}

TEST(NearTimeline, ALetterIsTheLayerThatRunsLongest) {
  sim::near_memory::Iteration iteration;
  iteration.begin_ns = 100;
  iteration.forward_ns = 40;
  iteration.backward_ns = 60;
  iteration.spans = {{Lane::kGpu, 1, std::nullopt, 100, 120},
                     {Lane::kGpu, 11, std::nullopt, 124, 140},
                     {Lane::kUpdate, 2, 0, 186, 200}};
  const std::string text = timeline_text(iteration, 10);
  EXPECT_THAT(text, HasSubstr("GPU computes          11bb|......\n"));
  EXPECT_THAT(text, HasSubstr("update                ....|....22\n"));
}

TEST(NearRows, AreJudgedByFractionOrByDistance) {
  NearRow row{"table 5", "CPU", "update_mp_per_s", 104, 100, NearLimit{0.05, true}};
  EXPECT_EQ(row.verdict(), Verdict::kWithin);
  EXPECT_DOUBLE_EQ(*row.ratio(), 1.04);
  row.ours = 94;
  EXPECT_EQ(row.verdict(), Verdict::kMiss);
  row = {"table 6", "GPT", "total_speedup", 1.65, 1.5, NearLimit{0.1, false}};
  EXPECT_EQ(row.verdict(), Verdict::kMiss);
  row.ours = 1.41;
  EXPECT_EQ(row.verdict(), Verdict::kWithin);
  row.published.reset();
  EXPECT_EQ(row.verdict(), Verdict::kNotAsked);
  EXPECT_FALSE(row.ratio());
}

TEST(NearRows, AsCsvAndJson) {
  const NearTable table{"table 5",
                        "title",
                        {{"table 5", "A, B", "update_mp_per_s", 50, 100, NearLimit{0.05, true}},
                         {"table 5", "C", "update_mp_per_s", 7, std::nullopt, std::nullopt}}};
  EXPECT_EQ(near_rows_csv({&table, 1}),
            "table,subject,metric,published,ours,ratio,verdict\n"
            "\"table 5\",\"A, B\",update_mp_per_s,100,50,0.5,miss\n"
            "\"table 5\",\"C\",update_mp_per_s,,7,,\n");
  const auto json = nlohmann::json::parse(near_row_json(table.rows[0]));
  EXPECT_EQ(json["subject"], "A, B");
  EXPECT_EQ(json["ratio"], 0.5);
  EXPECT_EQ(json["verdict"], "miss");
  EXPECT_TRUE(nlohmann::json::parse(near_row_json(table.rows[1]))["published"].is_null());
}

}  // namespace
}  // namespace spillway::reproduce
