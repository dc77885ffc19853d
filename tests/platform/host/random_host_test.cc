// The seeded random program of the simulator's tests, on real memory: under every policy that runs
// here without a plan, through host memory and a swap file whose transfers fail, with children that
// are made all the while. A failing seed is printed; SPILLWAY_SEED replays it.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "platform/host/random_host_seeds.h"

namespace spillway::host {
namespace {

class RandomHostTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(RandomHostTest, ContentsSurviveEverything) {
  const UserfaultSupport support = userfault_support();
  if (!support.write_protection || !support.kernel_faults) {
    GTEST_SKIP() << support.reason;
  }
  const PolicyInfo& info = **find_policy(GetParam());
  RandomHostSeeds seeds(info, 3);
  HostSeen seen;
  seeds.run([&](std::uint64_t) { return std::move(*info.make(Trace{}, Machine{}, {})); }, {}, seen);
  if (seeds.are_many()) {
    EXPECT_GT(seen.failed, 0);
    EXPECT_GT(seen.from_storage, 0U);
    EXPECT_GT(seen.to_host, 0U);
    EXPECT_GT(seen.reused, 0);
    EXPECT_EQ(seen.children > 0, support.fork_events);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomHostTest,
                         ::testing::Values("base_uvm", "deepum", "deepum_plus", "lookahead"),
                         [](const auto& policy) { return std::string(policy.param); });

}  // namespace
}  // namespace spillway::host
