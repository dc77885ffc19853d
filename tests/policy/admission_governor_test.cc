// Launches wait for deaths as long as all may fit; all else is the policy's own.
#include "policy/admission_governor.h"

#include "engine/engine_world.h"

namespace spillway {
namespace {

class AdmissionGovernorTest : public ::testing::Test {
 protected:
  AdmissionGovernorTest() {
    policy.victim = [](Cause /*cause*/) { return kVictim; };
    policy.clean_victim = kClean;
  }
  // With what an engine shows a policy.
  void ask(const std::function<void(Control&)>& what) {
    world.policy.at_issue = [&](const Launch& /*launch*/, Control& control) { what(control); };
    world.run({});
  }
  std::optional<BlockId> victim_for(Cause cause) {
    std::optional<BlockId> said;
    ask([&](Control& control) { said = patience.select_victim(cause, kNoBlock, control); });
    return said;
  }
  std::optional<BlockId> clean_victim_for(Cause cause) {
    std::optional<BlockId> said;
    ask([&](Control& control) { said = patience.select_clean_victim(cause, control); });
    return said;
  }
  static constexpr BlockId kVictim = 3;
  static constexpr BlockId kClean = 5;
  static constexpr Bytes kBudget = 16 * kBlockBytes;
  World world{one_at_a_time(16, 32, 0)};
  ScriptedPolicy policy;
  AdmissionGovernor patience{policy};
};

TEST_F(AdmissionGovernorTest, NothingLeavesForAPrefetchAsLongAsAllMayFit) {
  for (const Bytes alive : {kBudget, kBudget + kBudget / 8}) {
    patience.alive_at_most(alive, kBudget);
    EXPECT_EQ(victim_for(Cause::kPrefetch), std::nullopt);
    EXPECT_EQ(clean_victim_for(Cause::kPrefetch), std::nullopt);
    EXPECT_EQ(victim_for(Cause::kFault), kVictim);
    EXPECT_EQ(clean_victim_for(Cause::kFault), kClean);
  }
}

TEST_F(AdmissionGovernorTest, WhereMuchMoreIsAliveThePolicyChoosesFromThenOn) {
  for (const Bytes alive : {kBudget + kBudget / 8 + 1, Bytes{0}}) {
    patience.alive_at_most(alive, kBudget);
    for (const Cause cause : {Cause::kPrefetch, Cause::kFault}) {
      EXPECT_EQ(victim_for(cause), kVictim);
      EXPECT_EQ(clean_victim_for(cause), kClean);
    }
    EXPECT_FALSE(patience.all_fits());
  }
}

TEST_F(AdmissionGovernorTest, ThePolicyHearsOfDeathsAndOfWhatIsGivenUp) {
  std::vector<AllocationId> dead;
  std::vector<AllocationId> given_up;
  policy.at_death_said = [&](AllocationId id) { dead.push_back(id); };
  policy.at_give_up = [&](AllocationId id) { given_up.push_back(id); };
  patience.on_death_said(7);
  patience.on_give_up(8);
  EXPECT_EQ(dead, std::vector<AllocationId>{7});
  EXPECT_EQ(given_up, std::vector<AllocationId>{8});
  EXPECT_FALSE(patience.recomputes());
  policy.gives_up = true;
  EXPECT_TRUE(patience.recomputes());
}

TEST_F(AdmissionGovernorTest, ThePolicyHearsNothingOfLaunchesThatNobodyWasToldOf) {
  int issued = 0;
  int ended = 0;
  policy.at_issue = [&](const Launch& /*launch*/, Control& /*control*/) { ++issued; };
  policy.at_launch_end = [&](const Launch& /*launch*/, Control& /*control*/) { ++ended; };
  for (const ExecutionId execution : {AdmissionGovernor::kPlaceholder, ExecutionId{1}}) {
    ask([&](Control& control) {
      Launch launch;
      launch.execution = execution;
      patience.on_issue(launch, control);
      patience.on_launch(launch, control);
      patience.on_launch_end(launch, control);
    });
  }
  EXPECT_EQ(issued, 1);
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace spillway
