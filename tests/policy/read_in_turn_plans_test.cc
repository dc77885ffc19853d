// Policies that plan read in turn as well, where no plan is followed.
#include <memory>

#include "policy/asking_world.h"
#include "policy/page_machine.h"
#include "policy/planning/learned_plan.h"
#include "policy/planning/planned_ahead.h"

namespace spillway {
namespace {

constexpr TensorId kWeightTensors = 16;
constexpr std::uint64_t kWeightBlocks = 8;

class ReadInTurnWithPlans : public ::testing::Test {
 protected:
  explicit ReadInTurnWithPlans(std::unique_ptr<Policy> policy) : asked(std::move(policy)) {
    for (AllocationId& id : weights) {
      id = world.allocate(kWeightBlocks);
      world.run({world.overwrite(id)});
    }
  }
  // How many blocks come for a round.
  long read(std::uint32_t first_position = 0) {
    world.forget();
    for (std::uint32_t i = 0; i < kWeightTensors; ++i) {
      world.issue({.position = first_position + i, .accesses = {world.read(weights[i])}});
      world.finish_all();
      world.end(world.launches);
    }
    return world.blocks_that_came();
  }

  std::unique_ptr<Policy> asked;
  AskingWorld world{keeping_clean_copies(64, 256), *asked};
  std::array<AllocationId, kWeightTensors> weights{};
};

class NeverAnswers final : public Planner {
 public:
  void ask(Trace /*iteration*/) override {}
  [[nodiscard]] std::optional<Plan> take() override { return std::nullopt; }
};

class ReadInTurnBeforeAPlan : public ReadInTurnWithPlans,
                              public ::testing::WithParamInterface<bool> {
 protected:
  ReadInTurnBeforeAPlan() : ReadInTurnWithPlans(without_a_plan(GetParam())) {}
  static std::unique_ptr<Policy> without_a_plan(bool learns) {
    if (learns) {
      return std::make_unique<LearnedPlan>("g10", std::make_unique<NeverAnswers>(), Tier::kHost);
    }
    return std::make_unique<PlannedAhead>();
  }
};

INSTANTIATE_TEST_SUITE_P(G10, ReadInTurnBeforeAPlan, ::testing::Bool(), [](const auto& at) {
  return at.param ? "ThatLearnsItsPlan" : "WithTheQueue";
});

TEST_P(ReadInTurnBeforeAPlan, AsMuchAsThereIsRoomForStays) {
  EXPECT_EQ(read(), 128);
  for (int i = 0; i < 4; ++i) {
    (void)read();
  }
  EXPECT_LE(read(), 72);
}

// The plan moves nothing, and knows the order in which they are read.
class ReadInTurnBehindAPlan : public ReadInTurnWithPlans {
 protected:
  ReadInTurnBehindAPlan() : ReadInTurnWithPlans(std::make_unique<PlannedAhead>()) {
    std::vector<std::vector<TensorId>> uses;
    for (TensorId id = 0; id < kWeightTensors; ++id) {
      uses.push_back({id});
    }
    const std::vector<Tensor> tensors(kWeightTensors, {kWeightBlocks * kBlockBytes, true, false});
    Plan plan;
    plan.before.resize(kWeightTensors);
    auto planned = std::make_unique<Planned>("g10", test::trace_of_uses(tensors, uses),
                                             std::move(plan), Tier::kHost);
    for (TensorId id = 0; id < kWeightTensors; ++id) {
      planned->adopt(id, weights[id]);
    }
    dynamic_cast<PlannedAhead&>(*asked).follow(std::move(planned));
  }
};

TEST_F(ReadInTurnBehindAPlan, WhoStraysFromThePlanHasLearntMeanwhile) {
  for (int i = 0; i < 5; ++i) {
    (void)read();
  }
  EXPECT_LE(read(), 72);
  EXPECT_LE(read(kWeightTensors), 72);  // places that the plan does not know
}

}  // namespace
}  // namespace spillway
