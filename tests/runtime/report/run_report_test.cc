// The report of a run: the facts of a record stand in the page, and nothing of a program's own text
// becomes part of its markup.
#include "runtime/report/run_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/units.h"
#include "plot/gnuplot_process.h"
#include "runtime/report/report_timeline.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

json tiers(Bytes device, Bytes host, Bytes storage) {
  return {{"device", device}, {"host", host}, {"storage", storage}};
}

json moved(Bytes in_from_host, Bytes out_to_host, Bytes out_to_storage = 0) {
  return {{"host_to_device", in_from_host}, {"device_to_host", out_to_host},
          {"storage_to_device", 0},         {"device_to_storage", out_to_storage},
          {"host_to_storage", 0},           {"storage_to_host", 0}};
}

json sample(double at_s, Bytes device, Bytes in_from_host, double stalled_s) {
  return {{"at_s", at_s},
          {"used_bytes", tiers(device, 64 * kMiB, 0)},
          {"live_bytes", 2 * device},
          {"moved_bytes", moved(in_from_host, 0)},
          {"page_faults", 10},
          {"stalled_s", stalled_s}};
}

json wait(const std::string& name, double host_s, double storage_s, double fresh_s) {
  return {{"name", name},
          {"launches", 4},
          {"blocks", 77},
          {"wait_s", host_s + storage_s + fresh_s},
          {"for_host_memory_s", host_s},
          {"for_storage_s", storage_s},
          {"for_new_memory_s", fresh_s}};
}

// Eight seconds, of which two are stalled, mostly for host memory.
json record() {
  return {{"version", 1},
          {"command", "./train --steps 4"},
          {"pid", 4711},
          {"policy", "deepum"},
          {"budget_bytes", tiers(512 * kMiB, kGiB, 0)},
          {"elapsed_s", 8.0},
          {"peak_bytes", 1280 * kMiB},
          {"used_bytes", tiers(256 * kMiB, 64 * kMiB, 0)},
          {"page_faults", 1234},
          {"write_faults", 56},
          {"launches", 789},
          {"updates", 0},
          {"prefetched_blocks", 4000},
          {"prefetches_late", 300},
          {"prefetches_used", 3500},
          {"prefetches_wasted", 17},
          {"evictions", 2222},
          {"moved_bytes", moved(3 * kGiB, 2 * kGiB)},
          {"saved_by_discard_bytes", 5 * kGiB},
          {"stalled_s", 2.0},
          {"longest_waits", {wait("aten::bmm", 1.25, 0.25, 0.125), wait("aten::mul", 0.5, 0, 0)}},
          {"timeline",
           {sample(0, 0, 0, 0),
            sample(4, 512 * kMiB, kGiB, 2.0),
            {{"at_s", 8.0},
             {"used_bytes", tiers(256 * kMiB, 64 * kMiB, 0)},
             {"live_bytes", kGiB},
             {"moved_bytes", moved(3 * kGiB, 2 * kGiB)},
             {"page_faults", 1234},
             {"stalled_s", 2.0}}}}};
}

class RunReport : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              fmt::format("spillway-report-{}-{}", info->name(), getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void keep(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }
  [[nodiscard]] std::string page() const {
    const Result<std::string> page = run_report(read_run_records(folder_));
    EXPECT_TRUE(page.has_value()) << page.error().message;
    return page.value_or("");
  }
  [[nodiscard]] std::string page_of(const json& one) const {
    keep("4711.json", one.dump());
    return page();
  }

  std::filesystem::path folder_;
};

// What a reader sees: without the style sheet, tags and line breaks.
std::string words_of(const std::string& html) {
  const std::string body = html.substr(html.find("<body>"));
  const std::string words = std::regex_replace(body, std::regex("<[^>]*>"), "");
  return std::regex_replace(words, std::regex("\\s+"), " ");
}

// The number above a caption.
std::string number_at(const std::string& html, const std::string& caption) {
  const std::regex tile("<b>([^<]*)</b><span>" + caption + "</span>");
  std::smatch found;
  return std::regex_search(html, found, tile) ? found[1].str() : "missing";
}

std::vector<std::string> all_of(const std::string& html, const std::string& pattern) {
  const std::regex wanted(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator at(html.begin(), html.end(), wanted), end; at != end; ++at) {
    found.push_back((*at)[1].str());
  }
  return found;
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(RunReport, SaysInWordsWhatTheRunWasLike) {
  const std::string words = words_of(page_of(record()));
  EXPECT_THAT(words, HasSubstr("./train --steps 4"));
  EXPECT_THAT(words, HasSubstr("The policy deepum ran this program with 512 MiB of device memory. "
                               "Its large allocations peaked at 1.25 GiB, 2.50 times as much. It "
                               "ran for 8 s, of which 2 s (25 %) were stalled. Nothing was written "
                               "to storage."));
}

TEST_F(RunReport, SaysHowMuchWasWrittenToStorageByEitherWay) {
  json one = record();
  one["moved_bytes"]["device_to_storage"] = 3 * kGiB;
  one["moved_bytes"]["host_to_storage"] = kGiB;
  EXPECT_THAT(words_of(page_of(one)), HasSubstr("4 GiB were written to storage."));
}

TEST_F(RunReport, HoldsTheNumbers) {
  const std::string html = page_of(record());
  EXPECT_EQ(number_at(html, "faults on missing blocks"), "1234");
  EXPECT_EQ(number_at(html, "faults on first writes"), "56");
  EXPECT_EQ(number_at(html, "launches"), "789");
  EXPECT_EQ(number_at(html, "blocks prefetched"), "4000");
  EXPECT_EQ(number_at(html, "of them used"), "3500");
  EXPECT_EQ(number_at(html, "needed while on their way"), "300");
  EXPECT_EQ(number_at(html, "left again unused"), "17");
  EXPECT_EQ(number_at(html, "evictions"), "2222");
  EXPECT_EQ(number_at(html, "host to device memory"), "3 GiB");
  EXPECT_EQ(number_at(html, "device to host memory"), "2 GiB");
  EXPECT_EQ(number_at(html, "storage to device memory"), "0 B");
  EXPECT_EQ(number_at(html, "not moved, since it was dead"), "5 GiB");
}

TEST_F(RunReport, TellsForWhatLaunchesWaited) {
  const std::string html = page_of(record());
  EXPECT_THAT(all_of(html, "<td class=\"name\">([^<]*)<"), ElementsAre("aten::bmm", "aten::mul"));
  const std::string row = html.substr(html.find("aten::bmm"));
  EXPECT_THAT(words_of("<body>" + row.substr(0, row.find("</tr>"))),
              AllOf(HasSubstr("1.625 s"), HasSubstr("1.25 s"), HasSubstr("250 ms"),
                    HasSubstr("125 ms"), HasSubstr("406 ms")));
}

// Where charts are drawn.
class RunReportCharts : public RunReport {
 protected:
  void SetUp() override {
    RunReport::SetUp();
    if (const auto drawn = plot::run_gnuplot(""); !drawn) GTEST_SKIP() << drawn.error().message;
  }
};

TEST_F(RunReportCharts, ShowTiersMigrationsAndStalls) {
  const std::string html = page_of(record());
  EXPECT_EQ(count_of(html, "<svg class=\"chart\""), 1U);
  EXPECT_THAT(words_of(html), AllOf(HasSubstr("Tiers"), HasSubstr("alive, wherever it is"),
                                    HasSubstr("budget of device memory"), HasSubstr("Migrations"),
                                    HasSubstr("host to device memory"), HasSubstr("MiB/s"),
                                    HasSubstr("Stalls"), HasSubstr("% of the time"),
                                    HasSubstr("time since the first large allocation (s)")));
}

TEST_F(RunReportCharts, HaveUnitsThatSuitTheRun) {
  json one = record();
  one["elapsed_s"] = one["timeline"][2]["at_s"] = 7200.0;
  EXPECT_THAT(words_of(page_of(one)), HasSubstr("time since the first large allocation (minutes)"));
  one["elapsed_s"] = one["timeline"][2]["at_s"] = 72000.0;
  EXPECT_THAT(words_of(page_of(one)), HasSubstr("time since the first large allocation (hours)"));
}

TEST_F(RunReportCharts, ABudgetFarAboveWhatIsUsedIsNamedAndNotDrawn) {
  json one = record();
  one["budget_bytes"]["host"] = 64 * kGiB;
  const std::string words = words_of(page_of(one));
  EXPECT_THAT(words, HasSubstr("Budgets above the chart: 64 GiB of host memory."));
  EXPECT_THAT(words, Not(HasSubstr("budget of host memory")));
  EXPECT_THAT(words, HasSubstr("budget of device memory"));
}

TEST_F(RunReportCharts, WithoutMigrationsSaySo) {
  json one = record();
  for (json& sample : one["timeline"]) {
    sample["moved_bytes"] = moved(0, 0);
  }
  const std::string words = words_of(page_of(one));
  EXPECT_THAT(words,
              AllOf(HasSubstr("Nothing moved between the tiers."), Not(HasSubstr("Migrations"))));
}

// Whatever gnuplot draws in a colour of its own would not be seen on a dark page.
TEST_F(RunReportCharts, HaveOnlyColoursThatThePageKnows) {
  json one = record();
  one["moved_bytes"]["device_to_storage"] = one["moved_bytes"]["storage_to_device"] =
      one["moved_bytes"]["host_to_storage"] = kGiB;
  one["budget_bytes"]["storage"] = kGiB;
  one["timeline"][2]["moved_bytes"] = one["moved_bytes"];
  const std::string html = page_of(one);
  const std::string chart = html.substr(html.find("<svg class=\"chart\""));
  for (const char* attribute : {"stroke", "fill"}) {
    for (const std::string& color :
         all_of(chart, fmt::format(" {} ?= ?'(rgb[^']*|black)'", attribute))) {
      EXPECT_THAT(html, HasSubstr(fmt::format(".chart [{}=\"{}\"]", attribute, color)));
    }
  }
  EXPECT_THAT(chart, Not(HasSubstr("<rect x=\"0\" y=\"0\" width=\"900\" height=\"900\" fill=\"#")));
}

TEST_F(RunReport, NeedsNothingFromElsewhere) {
  const std::string html = page_of(record());
  for (const char* outside : {"http:", "https:", "src=", "@import", "url(", "<link", "<script"}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
}

TEST_F(RunReport, AProgramsTextIsNoMarkup) {
  json one = record();
  const std::string evil = "\"><script>alert('x')</script>&amp;\x01";
  one["command"] = evil;
  one["policy"] = evil;
  one["longest_waits"][0]["name"] = evil;
  const std::string html = page_of(one);
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_EQ(count_of(html, "&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;amp; "),
            3U);
}

TEST_F(RunReport, EverySessionHasASection) {
  json second = record();
  second["pid"] = 20000;
  second["command"] = "./worker";
  keep("20000.json", second.dump());
  keep("5000.live", "{}");  // not a record
  const std::string html = page_of(record());
  EXPECT_THAT(all_of(html, "<section id=\"session-([0-9]+)\""), ElementsAre("4711", "20000"));
  EXPECT_THAT(all_of(html, "href=\"#session-([0-9]+)\""), ElementsAre("4711", "20000"));
}

TEST_F(RunReport, ModulesThatWaitedStandBeforeLaunches) {
  EXPECT_THAT(words_of(page_of(record())), Not(HasSubstr("Modules that waited")));
  json one = record();
  one["waits_by_module"] = json::array({wait("transformer.h.*.mlp (backward)", 1.25, 0.25, 0.125)});
  const std::string words = words_of(page_of(one));
  const std::size_t modules = words.find("Modules that waited longest");
  ASSERT_NE(modules, std::string::npos);
  EXPECT_LT(modules, words.find("transformer.h.*.mlp (backward)"));
  EXPECT_LT(words.find("transformer.h.*.mlp (backward)"), words.find("Launches that waited"));
}

TEST_F(RunReport, OneUnreadableRecordDoesNotHideTheOthers) {
  keep("5.json", "{\"version\": 1, \"comm");
  const std::string words = words_of(page_of(record()));
  EXPECT_THAT(words, HasSubstr("The record 5.json cannot be read"));
  EXPECT_THAT(words, HasSubstr("Process 4711"));
}

TEST_F(RunReport, ARunTooShortForASampleHasNoCharts) {
  json one = record();
  one["timeline"] = {sample(0, 0, 0, 0)};
  one["longest_waits"] = json::array();
  const std::string html = page_of(one);
  EXPECT_EQ(count_of(html, "<svg class=\"chart\""), 0U);
  EXPECT_THAT(html, AllOf(HasSubstr("nothing to draw"), HasSubstr("No launch waited"),
                          HasSubstr("(25 %) were stalled")));
}

TEST_F(RunReport, WithoutGnuplotTheRestIsThereAndALineSaysWhatToInstall) {
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", folder_.c_str(), 1);
  const std::string html = page_of(record());
  ::setenv("PATH", before.c_str(), 1);
  EXPECT_EQ(count_of(html, "<svg class=\"chart\""), 0U);
  EXPECT_THAT(words_of(html), HasSubstr("There are no charts: gnuplot is not installed: install it "
                                        "(Debian package gnuplot-nox)"));
  EXPECT_EQ(number_at(html, "launches"), "789");
}

TEST_F(RunReport, FieldsThatAreMissingOrOfAnotherTypeAreZero) {
  const std::string html = page_of(
      {{"version", 1}, {"elapsed_s", nullptr}, {"moved_bytes", 3}, {"timeline", {1, nullptr}}});
  EXPECT_EQ(number_at(html, "host to device memory"), "0 B");
}

TEST_F(RunReport, AdviceFollowsTheNumbers) {
  EXPECT_THAT(page_of(record()), Not(HasSubstr("class=\"advice\"")));

  json one = record();
  one["prefetches_late"] = 1500;
  EXPECT_THAT(page_of(one), HasSubstr("1500 of 4000 prefetches were still on their way"));

  one = record();
  one["prefetches_wasted"] = 1500;
  EXPECT_THAT(page_of(one), HasSubstr("a lower <code>--prefetch-degree</code> moves less in vain"));
  one["policy"] = "lookahead";  // which has none
  EXPECT_THAT(page_of(one), Not(HasSubstr("--prefetch-degree")));

  one = record();
  one["longest_waits"] = json::array({wait("k", 0.2, 0.7, 0.1)});
  EXPECT_THAT(page_of(one), AllOf(HasSubstr("(70 %) was for storage: raise "
                                            "<code>--host-memory</code> (now 1 GiB)."),
                                  Not(HasSubstr("nothing would have to go"))));
  one["peak_bytes"] = 3 * kGiB;
  EXPECT_THAT(page_of(one), HasSubstr("with 2.5 GiB nothing would have to go to storage"));

  one = record();
  one["longest_waits"] = json::array({wait("k", 0.2, 0.1, 0.7)});
  EXPECT_THAT(page_of(one), HasSubstr("(70 %) was for memory that was new"));

  one = record();
  one["policy"] = "base_uvm";
  EXPECT_THAT(page_of(one),
              HasSubstr("without <code>--policy</code> it is one that fetches ahead"));

  one = record();
  one["launches"] = 0;
  EXPECT_THAT(page_of(one), HasSubstr("No launch was seen"));

  one = record();
  one["prefetched_blocks"] = 30;
  one["prefetches_late"] = 0;
  one["prefetches_wasted"] = 0;
  EXPECT_THAT(page_of(one), HasSubstr("Less was fetched ahead (30 blocks) than faulted (1234)"));

  one = record();
  one["stalled_s"] = 0.1;
  EXPECT_THAT(page_of(one), AllOf(HasSubstr("Only 1.2 % of the time was stalled"),
                                  Not(HasSubstr("All that was alive"))));
  one["peak_bytes"] = 100 * kMiB;
  EXPECT_THAT(page_of(one), HasSubstr("All that was alive at once (100 MiB) fits in the 512 MiB"));
}

TEST_F(RunReport, SaysWhyThereIsNoRecord) {
  const Result<std::string> empty = run_report(read_run_records(folder_));
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().code, ErrorCode::kCannotRun);
  EXPECT_THAT(empty.error().message, HasSubstr("--threshold"));

  keep("9.json", "");
  const Result<std::string> unreadable = run_report(read_run_records(folder_));
  ASSERT_FALSE(unreadable.has_value());
  EXPECT_EQ(unreadable.error().code, ErrorCode::kCannotRun);
  EXPECT_THAT(unreadable.error().message, HasSubstr("9.json"));
}

TEST(ReportTimeline, SpansAddUpToTheSums) {
  std::vector<RunSample> samples(1000);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    // Uneven distances, as after a run's samples were thinned out.
    samples[i].at_s = static_cast<double>(i) + (i % 3 == 0 ? 0.4 : 0);
    samples[i].moved_bytes[1][0] = 10 * i + (i % 7);
    samples[i].stalled_s = 0.25 * static_cast<double>(i);
    samples[i].used_bytes[0] = i == 500 ? 99 : 7;
  }
  const std::vector<TimelineSpan> spans = spans_of(samples, 64);
  ASSERT_THAT(spans, SizeIs(64));
  double moved_bytes = 0;
  double stalled_s = 0;
  Bytes most_bytes = 0;
  for (const TimelineSpan& span : spans) {
    moved_bytes += span.moved_bytes_per_s[1][0] * (span.to_s - span.from_s);
    stalled_s += span.stalled_fraction * (span.to_s - span.from_s);
    most_bytes = std::max(most_bytes, span.used_bytes[0]);
  }
  EXPECT_NEAR(moved_bytes, static_cast<double>(samples.back().moved_bytes[1][0]), 1e-6);
  EXPECT_NEAR(stalled_s, samples.back().stalled_s, 1e-6);
  EXPECT_EQ(most_bytes, 99U);
  EXPECT_THAT(spans_of({}, 64), IsEmpty());
  EXPECT_THAT(spans_of({RunSample{}}, 64), IsEmpty());
}

}  // namespace
}  // namespace spillway
