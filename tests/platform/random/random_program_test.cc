// Seeded simulation of random programs under every policy; docs/testing.md says what is checked and
// how a failing seed is replayed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/sanitizers.h"
#include "platform/random_run.h"

namespace spillway::sim {
namespace {

constexpr std::uint64_t kEvents = 120'000;  // under each policy; SPILLWAY_EVENTS asks for more
constexpr std::uint64_t kEventsPerSeed = 4000;
// With updates; a sanitizer makes each seed slower.
constexpr std::uint64_t kUpdateSeeds = SPILLWAY_ADDRESS_SANITIZER != 0 ? 10 : 40;

std::vector<std::string> all_policy_names() {
  std::vector<std::string> names{"adversarial", "profiled"};
  for (const PolicyInfo& info : all_policies()) {
    names.emplace_back(info.name);
  }
  return names;
}

std::optional<std::uint64_t> number_from(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::nullopt : std::optional(std::strtoull(text, nullptr, 10));
}

std::string how_to_replay(std::uint64_t seed) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("to replay: SPILLWAY_SEED={} platform_test --gtest_filter={}.{}", seed,
                     test->test_suite_name(), test->name());
}

class RandomPrograms : public testing::TestWithParam<std::string> {};

// What the runs under one policy did to an engine.
struct Seen {
  EngineStats stats;
  std::uint64_t events = 0;
  std::uint64_t seeds = 0;
  std::uint64_t gave_up = 0;
  std::uint64_t stuck = 0;
  std::uint64_t touches = 0;
  std::uint64_t plans = 0;
  std::size_t in_flight_most = 0;

  void add(const RunResult& result) {
    ++seeds;
    events += result.events;
    gave_up += result.gave_up.has_value();
    stuck += result.stuck;
    touches += result.touches;
    plans += result.plans;
    in_flight_most = std::max(in_flight_most, result.launches_in_flight_most);
    stats.evictions += result.stats.evictions;
    stats.pre_evictions += result.stats.pre_evictions;
    stats.recovered += result.stats.recovered;
    stats.reclaimed_discarded += result.stats.reclaimed_discarded;
    stats.failed_transfers += result.stats.failed_transfers;
    stats.host_mapped_bytes += result.stats.host_mapped_bytes;
  }
};

TEST_P(RandomPrograms, KeepTheirContentsAndTheirLimits) {
  const std::optional<std::uint64_t> only = number_from("SPILLWAY_SEED");
  const std::uint64_t all =
      number_from("SPILLWAY_EVENTS").value_or(kEvents * all_policy_names().size());
  const std::uint64_t events =
      std::max<std::uint64_t>(all / all_policy_names().size(), kEventsPerSeed);
  Seen seen;
  for (std::uint64_t seed = only.value_or(1); only ? seed == *only : seen.events < events; ++seed) {
    const RunResult result = RandomRun(GetParam(), seed).run(kEventsPerSeed);
    seen.add(result);
    if (only) {
      for (const std::string& line : result.history) {
        fmt::print("{}\n", line);
      }
    }
    ASSERT_EQ(result.problem, "") << how_to_replay(seed);
  }
  RecordProperty("events", std::to_string(seen.events));
  fmt::print(
      "{} events, {} seeds, {} gave up, {} times out of memory, {} launches in flight at "
      "most, {} threads stopped\n",
      seen.events, seen.seeds, seen.gave_up, seen.stuck, seen.in_flight_most, seen.touches);
  if (!only && events >= kEvents) {
    // The programs did what they are meant to do to an engine.
    EXPECT_GT(seen.gave_up, 0U);
    EXPECT_LT(seen.gave_up, seen.seeds / 4);
    EXPECT_GT(seen.stuck, 20U);
    EXPECT_GT(seen.touches, 100U);
    EXPECT_EQ(seen.plans > 50, GetParam() == "profiled");
    EXPECT_EQ(seen.in_flight_most, 1000U);
    EXPECT_GT(seen.stats.evictions, 1000U);
    EXPECT_GT(seen.stats.pre_evictions, 100U);
    EXPECT_GT(seen.stats.recovered, 100U);
    EXPECT_GT(seen.stats.failed_transfers, 100U);
    EXPECT_EQ(seen.stats.host_mapped_bytes / kBlockBytes > 100, GetParam() == "adversarial");
  }
}

TEST_P(RandomPrograms, FindWhatWasWrittenByWhoDoesNotNameIt) {
  const std::optional<std::uint64_t> only = number_from("SPILLWAY_SEED");
  for (std::uint64_t seed = only.value_or(1); seed <= only.value_or(20); ++seed) {
    const RunResult result = RandomRun(GetParam(), seed, {.exposes = true}).run(kEventsPerSeed);
    ASSERT_EQ(result.problem, "") << how_to_replay(seed);
  }
}

TEST_P(RandomPrograms, UpdateNextToTheirData) {
  const std::optional<std::uint64_t> only = number_from("SPILLWAY_SEED");
  EngineStats stats;
  for (std::uint64_t seed = only.value_or(1); seed <= only.value_or(kUpdateSeeds); ++seed) {
    const RunResult result =
        RandomRun(GetParam(), seed, {.exposes = seed % 5 == 0, .updates = true})
            .run(kEventsPerSeed);
    if (only) {
      for (const std::string& line : result.history) {
        fmt::print("{}\n", line);
      }
    }
    ASSERT_EQ(result.problem, "") << how_to_replay(seed);
    stats.updates += result.stats.updates;
    stats.moved_bytes[2][1] += result.stats.moved_bytes[2][1];
  }
  if (!only) {
    EXPECT_GT(stats.updates, 100U);
  }
}

TEST_P(RandomPrograms, RunTheSameWayTwice) {
  for (const std::uint64_t seed : {3U, 14U, 16U, 17U}) {
    const RunResult first = RandomRun(GetParam(), seed).run(2000);
    const RunResult second = RandomRun(GetParam(), seed).run(2000);
    EXPECT_EQ(first.hash, second.hash) << how_to_replay(seed);
    EXPECT_EQ(first.events, second.events);
    EXPECT_NE(first.hash, RandomRun(GetParam(), seed + 100).run(2000).hash);
  }
}

INSTANTIATE_TEST_SUITE_P(Under, RandomPrograms, testing::ValuesIn(all_policy_names()),
                         [](const auto& policy) { return policy.param; });

}  // namespace
}  // namespace spillway::sim
