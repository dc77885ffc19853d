// The random program on real memory under the policies that plan: it is recorded while it runs, and
// planned for by this machine's figures, as `spillway run` does it. What it does next has little to
// do with its plan. A failing seed is printed; SPILLWAY_SEED replays it.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "platform/host/random_host_seeds.h"
#include "policy/profiled.h"
#include "runtime/run/program_plan.h"

namespace spillway::host {
namespace {

class RandomHostPlansTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(RandomHostPlansTest, ContentsSurviveEveryPlan) {
  const UserfaultSupport support = userfault_support();
  if (!support.write_protection || !support.kernel_faults) {
    GTEST_SKIP() << support.reason;
  }
  const PolicyInfo& info = **find_policy(GetParam());
  RandomHostSeeds seeds(info, 2);
  Profiled* profiled = nullptr;
  bool recording = false;
  int plans = 0;
  HostSeen seen;
  seeds.run(
      [&](std::uint64_t) {
        auto made = std::make_unique<Profiled>(info.name);
        profiled = made.get();
        recording = false;
        return made;
      },
      // Every other iteration is recorded, and followed until the next one has been.
      [&](HostPlatform& platform) {
        recording = !recording;
        if (recording) {
          platform.begin_recording();
          return;
        }
        const std::optional<RecordedIteration> iteration = platform.end_recording();
        ASSERT_TRUE(iteration);
        ProgramPlan made = plan_for_program(info, *iteration, platform, {}, {});
        EXPECT_GE(made.report.launches, 16U);
        if (made.plan) {
          ++plans;
          platform.change_policy([&] {
            profiled->follow(*iteration, std::move(*made.plan),
                             info.traits.uses_host ? Tier::kHost : Tier::kStorage);
          });
        }
      },
      seen);
  if (seeds.are_many()) {
    EXPECT_GT(plans, 0);
    EXPECT_GT(seen.failed, 0);
    EXPECT_GT(seen.from_storage, 0U);
    EXPECT_EQ(seen.to_host > 0, info.traits.uses_host);
    EXPECT_GT(seen.reused, 0);
    EXPECT_EQ(seen.children > 0, support.fork_events);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, RandomHostPlansTest,
                         ::testing::Values("autovm", "g10", "g10_host", "g10_gds"),
                         [](const auto& policy) { return std::string(policy.param); });

}  // namespace
}  // namespace spillway::host
