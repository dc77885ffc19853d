// Seeded simulation of random programs under every policy; docs/testing.md says what is checked and
// how a failing seed is replayed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "platform/random_run.h"

namespace spillway::sim {
namespace {

constexpr std::uint64_t kSeeds = 60;
constexpr std::uint64_t kEventsPerSeed = 4000;

std::vector<std::string> policies() {
  std::vector<std::string> names{"adversarial", "profiled"};
  for (const PolicyInfo& info : all_policies()) {
    names.emplace_back(info.name);
  }
  return names;
}

std::optional<std::uint64_t> seed_to_replay() {
  const char* text = std::getenv("SPILLWAY_SEED");
  return text == nullptr ? std::nullopt : std::optional(std::strtoull(text, nullptr, 10));
}

std::string how_to_replay(std::uint64_t seed) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  return fmt::format("to replay: SPILLWAY_SEED={} platform_test --gtest_filter={}.{}", seed,
                     test->test_suite_name(), test->name());
}

class RandomPrograms : public testing::TestWithParam<std::string> {};

TEST_P(RandomPrograms, KeepTheirContentsAndTheirLimits) {
  const std::optional<std::uint64_t> only = seed_to_replay();
  EngineStats seen;
  std::uint64_t events = 0;
  std::uint64_t gave_up = 0;
  std::uint64_t stuck = 0;
  for (std::uint64_t seed = only.value_or(1); seed <= only.value_or(kSeeds); ++seed) {
    const RunResult result = RandomRun(GetParam(), seed).run(kEventsPerSeed);
    events += result.events;
    gave_up += result.gave_up.has_value();
    stuck += result.stuck;
    seen.evictions += result.stats.evictions;
    seen.pre_evictions += result.stats.pre_evictions;
    seen.recovered += result.stats.recovered;
    seen.reclaimed_discarded += result.stats.reclaimed_discarded;
    seen.failed_transfers += result.stats.failed_transfers;
    if (only) {
      for (const std::string& line : result.history) {
        fmt::print("{}\n", line);
      }
    }
    ASSERT_EQ(result.problem, "") << how_to_replay(seed);
  }
  RecordProperty("events", std::to_string(events));
  fmt::print("{} events, {} runs gave up, {} times out of memory\n", events, gave_up, stuck);
  if (!only) {
    // The programs did what they are meant to do to an engine.
    EXPECT_GT(events, kSeeds * kEventsPerSeed / 2);
    EXPECT_GT(gave_up, 0U);
    EXPECT_LT(gave_up, kSeeds / 4);
    EXPECT_GT(stuck, 100U);
    EXPECT_GT(seen.evictions, 1000U);
    EXPECT_GT(seen.pre_evictions, 100U);
    EXPECT_GT(seen.recovered, 100U);
    EXPECT_GT(seen.failed_transfers, 100U);
  }
}

TEST_P(RandomPrograms, RunTheSameWayTwice) {
  for (const std::uint64_t seed : {3U, 14U, 15U}) {
    const RunResult first = RandomRun(GetParam(), seed).run(2000);
    const RunResult second = RandomRun(GetParam(), seed).run(2000);
    EXPECT_EQ(first.hash, second.hash) << how_to_replay(seed);
    EXPECT_EQ(first.events, second.events);
    EXPECT_NE(first.hash, RandomRun(GetParam(), seed + 100).run(2000).hash);
  }
}

INSTANTIATE_TEST_SUITE_P(Under, RandomPrograms, testing::ValuesIn(policies()),
                         [](const auto& policy) { return policy.param; });

}  // namespace
}  // namespace spillway::sim
