// The record of a run: what is written is what is read, and the documents know every field.
#include "runtime/record/run_record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "runtime/record/run_fields.h"
#include "runtime/record/run_records.h"
#include "runtime/record/run_samples.h"
#include "runtime/report/run_text.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

// Another value in every field, so that fields that change places are noticed.
class Numbered {
 public:
  template <typename Record>
  Record make() {
    Record record;
    for_each_field<Record>([&](const auto& field) { set(field.of(record)); });
    return record;
  }

 private:
  void set(std::uint64_t& value) { value = ++last_; }
  void set(double& value) { value = static_cast<double>(++last_) + 0.5; }
  void set(TimeNs& value) { value = static_cast<TimeNs>(++last_) * kNsPerMs; }
  void set(std::string& value) { value = fmt::format("text {}", ++last_); }
  void set(TierBytes& value) {
    for (Bytes& bytes : value) set(bytes);
  }
  void set(MovedBytes& value) {
    for (const Route& route : kRoutes) set(value[index_of(route.from)][index_of(route.to)]);
  }
  template <typename Record>
  void set(Record& value) {
    value = make<Record>();
  }
  template <typename Record>
  void set(std::vector<Record>& value) {
    value = {make<Record>(), make<Record>()};
  }
  template <typename Record>
  void set(std::optional<Record>& value) {
    value = make<Record>();
  }

  std::uint64_t last_ = 0;
};

RunRecord numbered() {
  auto record = Numbered().make<RunRecord>();
  record.version = RunRecord::kVersion;
  return record;
}

TEST(RunRecord, IsReadAsItWasWritten) {
  const std::string text = to_json(numbered());
  const std::optional<RunRecord> read = parse_run_record(text);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(to_json(*read), text);
  EXPECT_EQ(read->prefetches.late, numbered().prefetches.late);
  EXPECT_EQ(read->moves.bytes, numbered().moves.bytes);
  EXPECT_EQ(read->plan->estimated_ns, numbered().plan->estimated_ns);
  ASSERT_EQ(read->timeline.size(), 2U);
  EXPECT_EQ(read->timeline[1].stalled_s, numbered().timeline[1].stalled_s);
  EXPECT_EQ(read->longest_waits[1].name, numbered().longest_waits[1].name);
}

TEST(RunRecord, IsCopiedAsFarAsItFits) {
  const std::string text = to_json(numbered());
  std::string room(text.size() + 1, 'x');
  EXPECT_EQ(copy_json(numbered(), room.data(), room.size()), text.size());
  EXPECT_EQ(room, text + '\0');
  room.assign(4, 'x');
  EXPECT_EQ(copy_json(numbered(), room.data(), 3), text.size());
  EXPECT_EQ(room, text.substr(0, 2) + std::string("\0x", 2));
  EXPECT_EQ(copy_json(numbered(), nullptr, 0), text.size());
}

TEST(RunRecord, WritesWhatItsReadersAreUsedTo) {
  RunRecord record;
  record.memory.budget_bytes = {1, 2, 3};
  record.moves.bytes[index_of(Tier::kHost)][index_of(Tier::kDevice)] = 7;
  record.longest_waits = {{.name = "bad \xff name", .host_s = 0.5}};
  const json read = json::parse(to_json(record));
  EXPECT_EQ(read["version"], 1);
  EXPECT_EQ(read["budget_bytes"], json({{"device", 1}, {"host", 2}, {"storage", 3}}));
  EXPECT_EQ(read["moved_bytes"]["host_to_device"], 7);
  EXPECT_EQ(read["moved_bytes"].size(), 6U);
  EXPECT_EQ(read["longest_waits"][0]["for_host_memory_s"], 0.5);
  EXPECT_EQ(read["longest_waits"][0]["name"], "bad \xef\xbf\xbd name");
  EXPECT_EQ(read["timeline"], json::array());
  EXPECT_FALSE(read.contains("plan")) << "only policies that plan have one";
  EXPECT_THAT(to_json(record), Not(HasSubstr("\n")));
}

TEST(RunRecord, WhatIsNoneIsNotRead) {
  for (const char* text : {"", "{", "[]", "3", "null", "{}", R"({"version": 2})",
                           R"({"version": "1"})", R"([{"version": 1}])"}) {
    EXPECT_EQ(parse_run_record(text), std::nullopt) << text;
  }
  const std::optional<RunRecord> odd = parse_run_record(
      R"({"version": 1, "elapsed_s": "long", "page_faults": -3, "moved_bytes": [],
          "budget_bytes": {"host": 5}, "longest_waits": 7, "timeline": [1, null], "plan": []})");
  ASSERT_TRUE(odd.has_value());
  EXPECT_EQ(odd->times.elapsed_s, 0);
  EXPECT_EQ(odd->work.page_faults, 0U);
  EXPECT_EQ(odd->memory.budget_bytes, (TierBytes{0, 5, 0}));
  EXPECT_EQ(odd->timeline.size(), 2U);
  EXPECT_EQ(odd->plan, std::nullopt);
}

template <typename Record>
void expect_explained(const std::string& document) {
  for_each_field<Record>(
      [&](const auto& field) { EXPECT_THAT(document, HasSubstr(fmt::format("`{}`", field.key))); });
}

TEST(RunRecord, EveryFieldIsInTheDocument) {
  std::ifstream file(SPILLWAY_SOURCE_DIR "/docs/python.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  expect_explained<RunRecord>(document);
  expect_explained<RunSample>(document);
  expect_explained<RunWait>(document);
  expect_explained<PlanReport>(document);
  for (const Route& route : kRoutes) {
    EXPECT_THAT(document, HasSubstr(fmt::format("`{}`", route.key)));
  }
}

TEST(RunRecords, AreThoseOfAFolderByProcess) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / fmt::format("spillway-records-{}", ::getpid());
  std::filesystem::create_directories(folder);
  EXPECT_TRUE(read_run_records(folder).all.empty());
  EXPECT_TRUE(read_live_records(folder).empty());
  const auto keep = [](const std::string& file, const std::string& text) {
    std::ofstream(file) << text;
  };
  for (const std::uint64_t pid : {100U, 20U, 3U}) {
    RunRecord record = numbered();
    record.pid = pid;
    keep(record_file(folder, static_cast<std::int64_t>(pid)), to_json(record));
  }
  keep(record_file(folder, 9), "{\"version\": 1, \"comm");
  keep(live_file(folder, 5), "");
  const RunRecords records = read_run_records(folder);
  ASSERT_EQ(records.all.size(), 3U);
  EXPECT_EQ(records.all[0].pid, 3U);
  EXPECT_EQ(records.all[2].pid, 100U);
  EXPECT_THAT(records.unreadable, ElementsAre("9.json"));
  std::filesystem::remove_all(folder);
}

// Processes that run, have ended, were killed, and have become another program.
TEST(RunRecords, SayWhoseProcessRunsStill) {
  namespace fs = std::filesystem;
  const auto folder = fs::path(testing::TempDir()) / fmt::format("spillway-live-{}", ::getpid());
  fs::create_directories(folder);
  const auto keep = [](const std::string& file, std::int64_t pid) {
    RunRecord record;
    record.pid = static_cast<std::uint64_t>(pid);
    std::ofstream(file) << to_json(record);
  };
  const std::int64_t runs = ::getpid();
  constexpr std::int64_t kEnded = 1;
  constexpr std::int64_t kKilled = 999'999'999;  // above the kernel's largest
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const std::int64_t became_another = child;
  for (const std::int64_t pid : {runs, kEnded, kKilled, became_another}) {
    keep(live_file(folder, pid), pid);
  }
  for (const std::int64_t pid : {kEnded, became_another}) {
    keep(record_file(folder, pid), pid);
  }
  fs::last_write_time(
      record_file(folder, became_another),
      fs::last_write_time(live_file(folder, became_another)) - std::chrono::seconds(1));
  std::map<std::int64_t, bool> ended;
  for (const LiveRecord& one : read_live_records(folder)) {
    ended[static_cast<std::int64_t>(one.so_far.pid)] = one.ended;
  }
  EXPECT_EQ(ended, (std::map<std::int64_t, bool>{
                       {runs, false}, {kEnded, true}, {kKilled, true}, {became_another, false}}));
  // What a killed one showed last is its record.
  std::vector<std::uint64_t> recorded;
  for (const RunRecord& record : read_run_records(folder).all) {
    recorded.push_back(record.pid);
  }
  EXPECT_THAT(recorded, ElementsAre(kEnded, became_another, kKilled));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  fs::remove_all(folder);
}

TEST(RunSamples, AreThinnedOutEvenly) {
  RunSamples samples;
  constexpr std::size_t kMoments = 9 * RunSamples::kMax;
  for (std::size_t i = 0; i < kMoments; ++i) {
    samples.add({.at_s = static_cast<double>(i)});
    ASSERT_LT(samples.all().size(), RunSamples::kMax);
  }
  const std::vector<RunSample>& all = samples.all();
  EXPECT_GT(all.size(), RunSamples::kMax / 3);
  EXPECT_EQ(all.front().at_s, 0);
  const double apart_s = all[1].at_s - all[0].at_s;
  for (std::size_t i = 1; i < all.size(); ++i) {
    ASSERT_EQ(all[i].at_s - all[i - 1].at_s, apart_s);
  }
  EXPECT_GT(all.back().at_s + apart_s, static_cast<double>(kMoments - 1));
}

TEST(RunText, SumsARunUp) {
  RunRecord record;
  record.policy = "deepum";
  record.times.elapsed_s = 8;
  record.times.stalled_s = 2;
  record.memory.peak_bytes = 3 * kGiB;
  record.memory.budget_bytes = {kGiB, 2 * kGiB, 0};
  record.moves.bytes[index_of(Tier::kDevice)][index_of(Tier::kHost)] = 5 * kMiB;
  EXPECT_THAT(summary_text(record),
              AllOf(StartsWith("spillway: deepum for 8.0 s, stalled 2.00 s (25.0 %)\n"),
                    HasSubstr("peak       3 GiB in use at once; the limits are 1 GiB of device "
                              "memory, 2 GiB of host"),
                    HasSubstr("moved      0 B in from host, 5 MiB out;"), Not(HasSubstr("plan"))));
  record.plan.emplace();
  record.plan->number = 2;
  record.plan->launches = 70;
  record.plan->estimated_ns = 3 * kNsPerS / 2;
  EXPECT_THAT(summary_text(record), AllOf(HasSubstr("plan       70 launches"),
                                          HasSubstr("takes 1.50 s instead of 0.00 s; number 2")));
  record.plan->error = "too large";
  EXPECT_THAT(summary_text(record), HasSubstr("plan       none: too large\n"));
}

TEST(RunRecordStart, ComesBackAsItWasWritten) {
  RunRecord record;
  EXPECT_EQ(to_json(record).find("\"start\""), std::string::npos);
  record.said = {"one line", "another"};
  record.start.emplace();
  record.start->line = "runs on a device";
  record.start->device_memory = {.bytes = kGiB, .from = "--device-memory"};
  record.start->policy = {.name = "g10", .from = "SPILLWAY_POLICY"};
  record.start->switched_off = {{.what = "direct storage", .why = "there is none"}};
  record.start->without_effect = {"--threshold has no effect"};
  const std::optional<RunRecord> read = parse_run_record(to_json(record));
  ASSERT_TRUE(read && read->start);
  EXPECT_EQ(to_json(*read), to_json(record));
  EXPECT_EQ(read->said, record.said);
  EXPECT_EQ(read->start->device_memory.from, "--device-memory");
  EXPECT_EQ(read->start->switched_off.at(0).why, "there is none");
  EXPECT_EQ(read->start->without_effect, record.start->without_effect);
}

// One line, where everything had a place at once.
TEST(RunText, WhereNothingMovedALineSaysWhatItCost) {
  RunRecord record;
  record.policy = "lookahead";
  record.times.elapsed_s = 10;
  record.times.stalled_s = 0.04;
  record.memory.peak_bytes = 3 * kGiB;
  record.memory.budget_bytes = {4 * kGiB, 2 * kGiB, 0};
  EXPECT_EQ(summary_text(record),
            "spillway: everything fit: 3 GiB of 4 GiB of device memory at the highest, nothing "
            "moved, the run cost nothing\n");
  record.times.elapsed_s = 0.01;
  record.times.stalled_s = 0.004;
  EXPECT_THAT(summary_text(record), HasSubstr("the run cost nothing\n"));
  record.times.elapsed_s = 10;
  record.times.stalled_s = 0.5;
  EXPECT_THAT(
      summary_text(record),
      HasSubstr("nothing moved, making memory ready for its first use took 500 ms of 10 s\n"));
  record.times.elapsed_s = 0.009;  // a short run lasts, too
  record.times.stalled_s = 0.007;
  EXPECT_THAT(summary_text(record), HasSubstr("first use took 7 ms of 9 ms"));
  EXPECT_THAT(summary_text(record, "process 17: "),
              StartsWith("spillway: process 17: everything fit: "));
  record.device.past_budget = {{.call = "cuMemCreate", .library = "", .peak_bytes = kGiB}};
  EXPECT_THAT(summary_text(record), HasSubstr("  past limit "));
}

// A program that was refused memory needs more than it ever had: how much, nobody knows.
TEST(RunText, WhereMemoryRanOutNothingIsSaidToFitOrToBeEnough) {
  RunRecord record;
  record.policy = "lookahead";
  record.times.elapsed_s = 10;
  record.memory.peak_bytes = 3 * kGiB;
  record.memory.fits_in_bytes = 4 * kGiB;
  record.memory.budget_bytes = {4 * kGiB, 2 * kGiB, 0};
  record.memory.refused_allocations = 1;
  record.memory.refused_largest_bytes = 40 * kGiB;
  const std::optional<RunRecord> read = parse_run_record(to_json(record));
  ASSERT_TRUE(read);
  EXPECT_EQ(
      summary_text(*read),
      "spillway: memory ran out: 1 allocation was refused, the largest of 40 GiB; the program had "
      "3 GiB at the highest; the limits are 4 GiB of device memory, 2 GiB of host memory, no "
      "storage; nothing moved\n");
  record.moves.evictions = 1;
  record.memory.refused_allocations = 2;
  EXPECT_THAT(summary_text(record),
              AllOf(HasSubstr("  ran out    2 allocations were refused, the largest of 40 GiB\n"),
                    Not(HasSubstr("enough"))));
}

TEST(RunText, WhereSomethingMovedALineSaysWithWhatNothingWould) {
  RunRecord record;
  record.policy = "lookahead";
  record.memory.peak_bytes = 3 * kGiB;
  record.memory.fits_in_bytes = 27 * kGiB / 2;
  record.memory.budget_bytes = {4 * kGiB, 2 * kGiB, 0};
  const std::string line = "  enough     with 13.5 GiB of device memory nothing would have moved";
  for (const auto change : {+[](RunRecord& it) { it.moves.bytes[0][1] = 1; },
                            +[](RunRecord& it) { it.moves.evictions = 1; },
                            +[](RunRecord& it) { it.moves.given_up_bytes = 1; },
                            +[](RunRecord& it) { it.moves.host_mapped_bytes = 1; },
                            +[](RunRecord& it) { it.memory.peak_bytes = 5 * kGiB; }}) {
    RunRecord moved = record;
    change(moved);
    EXPECT_THAT(summary_text(moved), AllOf(HasSubstr(line + "\n"), Not(HasSubstr("fit:"))));
  }
  record.moves.evictions = 1;
  record.start.emplace();
  record.start->memory_bytes = 8 * kGiB;
  EXPECT_THAT(summary_text(record), HasSubstr(line + ": there are 8 GiB\n"));
}

TEST(RunText, TheSummarySaysWhichModulesWaitedLongest) {
  RunRecord record;
  record.moves.evictions = 1;
  EXPECT_THAT(summary_text(record), Not(HasSubstr("waited")));
  for (const char* const name : {"h.*.mlp", "h.*.attn (backward)", "optimizer", "head"}) {
    record.waits_by_module.push_back({.name = name, .wait_s = 1.25});
  }
  EXPECT_THAT(summary_text(record),
              HasSubstr("  waited     1.25 s in h.*.mlp, 1.25 s in h.*.attn (backward), "
                        "1.25 s in optimizer\n"));
}

TEST(RunText, TheSummarySaysWhatWentPastTheBudget) {
  RunRecord record;
  record.policy = "lookahead";
  record.moves.evictions = 1;
  EXPECT_THAT(summary_text(record), Not(HasSubstr("past it")));
  record.device.past_budget_peak_bytes = 3 * kGiB;
  record.device.past_budget = {{.call = "cuMemCreate", .library = "jaxlib", .peak_bytes = 2 * kGiB},
                               {.call = "cuArrayCreate", .library = "", .peak_bytes = kGiB}};
  record.device.in_use_peak_bytes = 5 * kGiB;
  const std::string past =
      "  past limit 3 GiB of device memory at the highest: 2 GiB by cuMemCreate (jaxlib), 1 GiB by "
      "cuArrayCreate\n"
      "  device     5 GiB in use by this process at the highest, its driver says\n";
  EXPECT_THAT(summary_text(record), HasSubstr(past));
  const std::optional<RunRecord> read = parse_run_record(to_json(record));
  ASSERT_TRUE(read);
  EXPECT_THAT(summary_text(*read), HasSubstr(past));
  record.policy = "";  // nothing was within the budget
  EXPECT_EQ(summary_text(record),
            "spillway: none of the program's device memory was within the budget\n" + past);
}

TEST(RunText, ShowsHowFullTiersAre) {
  RunRecord live;
  live.memory.budget_bytes = {kGiB, kGiB, 0};
  live.memory.used_bytes = {kGiB / 2, 2 * kGiB, 0};
  live.work.page_faults = 12;
  live.times.stalled_s = 3.14;
  const std::string line = live_line(live, 200);
  EXPECT_EQ(line, "device [#####-----] 512 MiB  host [##########] 2 GiB  faults 12  stalled 3.1 s");
  EXPECT_EQ(live_line(live, 20), line.substr(0, 19));
  EXPECT_EQ(live_line(live, 0), "");
  // All that is alive has come back fifty times: that is said first.
  live.memory.live_bytes = 600 * kMiB;
  live.moves.bytes[index_of(Tier::kHost)][index_of(Tier::kDevice)] = 30'000 * kMiB;
  EXPECT_EQ(live_line(live, 200), "needs at least 600 MiB  " + line);
}

}  // namespace
}  // namespace spillway
