// Links shared fairly: rates worked out by hand, and what must hold for any flows.
#include "platform/sim/link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/rng.h"

namespace spillway::sim {
namespace {

constexpr double kGBs = 1e9;  // a byte a nanosecond

struct Completion {
  std::uint64_t key;
  TimeNs at_ns;
  bool operator==(const Completion&) const = default;
};

// Lets time pass until nothing flows.
std::vector<Completion> run(FairShare& links) {
  std::vector<Completion> completions;
  while (const std::optional<TimeNs> next_ns = links.next_completion_ns()) {
    if (const std::optional<std::uint64_t> key = links.take_completed(*next_ns)) {
      completions.push_back({*key, *next_ns});
    }
  }
  return completions;
}

TEST(FairShare, OneFlowGetsTheWholeLink) {
  FairShare links({2 * kGBs, kGBs, kGBs, kGBs});
  EXPECT_TRUE(links.idle());
  EXPECT_FALSE(links.next_completion_ns().has_value());
  links.start(7, bit(Resource::kToDevice), 1000, 100);
  EXPECT_FALSE(links.take_completed(599).has_value());
  EXPECT_EQ(run(links), (std::vector<Completion>{{7, 600}}));
  EXPECT_TRUE(links.idle());
  EXPECT_DOUBLE_EQ(links.carried_bytes(Resource::kToDevice), 1000);
  EXPECT_DOUBLE_EQ(links.carried_bytes(Resource::kFromDevice), 0);
}

TEST(FairShare, DirectionsDoNotDisturbEachOther) {
  FairShare links({kGBs, kGBs, kGBs, kGBs});
  links.start(1, bit(Resource::kToDevice), 1000, 0);
  links.start(2, bit(Resource::kFromDevice), 1000, 0);
  EXPECT_EQ(run(links), (std::vector<Completion>{{1, 1000}, {2, 1000}}));
}

TEST(FairShare, SaysWhatEndsNextInOneDirection) {
  FairShare links({kGBs, kGBs, kGBs, kGBs, 2 * kGBs});
  EXPECT_FALSE(links.next_completion_ns(Resource::kFromDevice).has_value());
  links.start(1, bit(Resource::kToDevice) | bit(Resource::kBothWays), 300, 0);
  EXPECT_FALSE(links.next_completion_ns(Resource::kFromDevice).has_value());
  links.start(2, bit(Resource::kFromDevice) | bit(Resource::kBothWays), 900, 100);
  EXPECT_EQ(links.next_completion_ns(Resource::kFromDevice), 1000);
  EXPECT_EQ(links.next_completion_ns(Resource::kBothWays), 300);
}

// 300 and 900 bytes at 1 byte/ns: half each until 600, when the first is done; the other has 600
// left and the link to itself.
TEST(FairShare, TwoFlowsHalveTheLinkUntilOneIsDone) {
  FairShare links({kGBs, kGBs, kGBs, kGBs});
  links.start(1, bit(Resource::kToDevice), 300, 0);
  links.start(2, bit(Resource::kToDevice), 900, 0);
  EXPECT_EQ(run(links), (std::vector<Completion>{{1, 600}, {2, 1200}}));
}

TEST(FairShare, AFlowThatJoinsSlowsTheOther) {
  FairShare links({kGBs, kGBs, kGBs, kGBs});
  links.start(1, bit(Resource::kToDevice), 1000, 0);
  links.start(2, bit(Resource::kToDevice), 100, 500);  // 500 left of the first; half each
  EXPECT_EQ(run(links), (std::vector<Completion>{{2, 700}, {1, 1100}}));
}

// Three flows to a device at 12 bytes/ns, one of them from storage that reads 2: it gets 2, the
// other two share the 10 that are left (progressive filling).
TEST(FairShare, WhatOneCannotUseGoesToTheOthers) {
  FairShare links({12 * kGBs, kGBs, 2 * kGBs, kGBs});
  const ResourceSet from_storage = bit(Resource::kToDevice) | bit(Resource::kStorageRead);
  links.start(1, from_storage, 200, 0);
  links.start(2, bit(Resource::kToDevice), 500, 0);
  links.start(3, bit(Resource::kToDevice), 500, 0);
  EXPECT_EQ(run(links), (std::vector<Completion>{{1, 100}, {2, 100}, {3, 100}}));
}

// Storage reads 6: two flows from it get 3 each, and the third gets the other 6 of the link.
TEST(FairShare, TheTightestResourceDecides) {
  FairShare links({12 * kGBs, kGBs, 6 * kGBs, kGBs});
  const ResourceSet from_storage = bit(Resource::kToDevice) | bit(Resource::kStorageRead);
  links.start(1, from_storage, 300, 0);
  links.start(2, from_storage, 600, 0);
  links.start(3, bit(Resource::kToDevice), 900, 0);
  // At 100 the first is done: the second reads at 6, the third has 300 left and still 6.
  EXPECT_EQ(run(links), (std::vector<Completion>{{1, 100}, {2, 150}, {3, 150}}));
}

TEST(FairShare, NothingIsDoneAtOnce) {
  FairShare links({kGBs, kGBs, kGBs, kGBs});
  links.start(1, bit(Resource::kToDevice), 0, 50);
  EXPECT_EQ(run(links), (std::vector<Completion>{{1, 50}}));
}

TEST(FairShare, BothWaysShareWhatTheLinkCanDoInAll) {
  FairShare links({kGBs, kGBs, kGBs, kGBs, 1.6 * kGBs});
  const ResourceSet in = bit(Resource::kToDevice) | bit(Resource::kBothWays);
  const ResourceSet out = bit(Resource::kFromDevice) | bit(Resource::kBothWays);
  links.start(1, in, 800, 0);
  links.start(2, out, 1300, 0);  // 800 until the first has passed, then as fast as it goes alone
  EXPECT_EQ(run(links), (std::vector<Completion>{{1, 1000}, {2, 1500}}));
}

// Random flows over random links: none is lost, none is early, and no resource carries more than
// its bandwidth allows, over any stretch of time.
TEST(FairShare, NeverCarriesMoreThanTheMachineSays) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    std::array<double, kResourceCount> bytes_per_s{};
    for (double& bandwidth : bytes_per_s) {
      bandwidth = kGBs * (0.1 + rng.uniform() * 30);
    }
    FairShare links(bytes_per_s);
    std::map<std::uint64_t, std::pair<TimeNs, double>> flows;  // when it started, its shortest time
    std::array<double, kResourceCount> asked{};
    std::array<double, kResourceCount> carried{};
    TimeNs now_ns = 0;
    std::uint64_t started = 0;
    while (started < 60 || !links.idle()) {
      const std::optional<TimeNs> next_ns = links.next_completion_ns();
      const bool start = started < 60 && (!next_ns || rng.chance(0.5));
      const TimeNs before_ns = now_ns;
      if (start) {
        const TimeNs latest_ns = next_ns.value_or(now_ns + 1000);
        now_ns +=
            static_cast<TimeNs>(rng.below(static_cast<std::uint64_t>(latest_ns - now_ns) + 1));
        const auto resources = static_cast<ResourceSet>(1 + rng.below((1U << kResourceCount) - 1));
        const Bytes bytes = 1 + rng.below(Bytes{1} << (1 + rng.below(22)));
        double shortest_ns = 0;
        for (std::size_t i = 0; i < kResourceCount; ++i) {
          if ((resources & bit(static_cast<Resource>(i))) != 0) {
            asked[i] += static_cast<double>(bytes);
            shortest_ns = std::max(shortest_ns, static_cast<double>(bytes) / bytes_per_s[i] * 1e9);
          }
        }
        links.start(++started, resources, bytes, now_ns);
        flows[started] = {now_ns, shortest_ns};
      } else {
        now_ns = *next_ns;
        if (const std::optional<std::uint64_t> key = links.take_completed(now_ns)) {
          ASSERT_EQ(flows.count(*key), 1U) << "seed " << seed;
          const auto [since_ns, shortest_ns] = flows[*key];
          // Half a byte may be left out of account.
          EXPECT_GE(static_cast<double>(now_ns - since_ns) + 10, shortest_ns) << "seed " << seed;
          flows.erase(*key);
        }
      }
      for (std::size_t i = 0; i < kResourceCount; ++i) {
        const double bytes = links.carried_bytes(static_cast<Resource>(i));
        const double possible = static_cast<double>(now_ns - before_ns) * bytes_per_s[i] * 1e-9;
        EXPECT_LE(bytes - carried[i], possible * (1 + 1e-9) + 1e-3) << "seed " << seed;
        carried[i] = bytes;
      }
    }
    EXPECT_TRUE(flows.empty()) << "seed " << seed;
    for (std::size_t i = 0; i < kResourceCount; ++i) {
      EXPECT_LE(carried[i], asked[i] + 1e-3);
      EXPECT_GE(carried[i], asked[i] - 0.5 * 60 - 1e-3) << "seed " << seed;
    }
  }
}

// Max-min: a flow could only have more if one that has no more than it had less. With equal flows
// on one link that means equal times, whatever else goes on.
TEST(FairShare, EqualFlowsEndTogether) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    FairShare links({kGBs * (1 + rng.uniform()), kGBs * (1 + rng.uniform()),
                     kGBs * (1 + rng.uniform()), kGBs * (1 + rng.uniform())});
    const auto resources = static_cast<ResourceSet>(1 + rng.below(15));
    const Bytes bytes = 1000 + rng.below(100000);
    for (std::uint64_t key = 0; key < 4; ++key) {
      links.start(key, resources, bytes, 0);
    }
    for (std::uint64_t key = 4; key < 4 + rng.below(6); ++key) {
      links.start(key, static_cast<ResourceSet>(1 + rng.below(15)), 1 + rng.below(200000), 0);
    }
    std::vector<TimeNs> ends_ns;
    for (const Completion& completion : run(links)) {
      if (completion.key < 4) {
        ends_ns.push_back(completion.at_ns);
      }
    }
    ASSERT_EQ(ends_ns.size(), 4U);
    EXPECT_LE(ends_ns.back() - ends_ns.front(), 1) << "seed " << seed;
  }
}

}  // namespace
}  // namespace spillway::sim
