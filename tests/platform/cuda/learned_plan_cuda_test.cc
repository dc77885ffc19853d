// A plan that is learned from the queue, on the device: tensors come to lie elsewhere in every
// step, the plan is followed all the same, and no word is wrong.
#include <optional>
#include <utility>
#include <vector>

#include "analysis/vitality.h"
#include "base/sanitizers.h"
#include "platform/cuda/cuda_world.h"
#include "policy/planning/g10_planner.h"
#include "policy/planning/learned_plan.h"

namespace spillway::cuda {
namespace {

class PlannerAtHand final : public Planner {
 public:
  void ask(Trace iteration) override {
    Machine machine;
    machine.device.capacity_bytes = 56 * kMiB;
    machine.host.capacity_bytes = 512 * kMiB;
    plan_ = plan_g10(iteration, analyze_vitality(iteration), machine, {});
    ++asked_;
  }
  std::optional<Plan> take() override { return std::exchange(plan_, std::nullopt); }
  [[nodiscard]] int asked() const { return asked_; }

 private:
  std::optional<Plan> plan_;
  int asked_ = 0;
};

class LearnedPlanCuda : public CudaWorld {
 protected:
  // Forward: a layer writes its output; backward: each is checked and dies, and its weight changes.
  // Something is allocated between steps, so that addresses move on.
  void step(CuStream on, std::vector<Buffer>& weights, std::uint64_t number, std::size_t layers) {
    std::vector<Buffer> outputs;
    for (std::size_t i = 0; i < layers; ++i) {
      check(on, weights[i]);
      outputs.push_back(allocate((4 + 2 * (i % 3)) * kMiB));
      fill(on, outputs.back(), 1000 * number + i);
    }
    for (std::size_t i = layers; i-- > 0;) {
      check(on, outputs[i]);
      check(on, outputs[i]);
      rewrite(on, weights[i], 5000 * number + i);
      platform->memory().free(outputs[i].address);
    }
    const Buffer mark = allocate(6 * kMiB);
    platform->memory().free(mark.address);
  }
};

TEST_F(LearnedPlanCuda, IsFollowedWhereverTensorsLie) {
#if SPILLWAY_THREAD_SANITIZER || SPILLWAY_ADDRESS_SANITIZER
  GTEST_SKIP()
      << "its kernels look at every word, for minutes; LearnedPlanTest is the policy alone";
#endif
  auto planner = std::make_unique<PlannerAtHand>();
  const PlannerAtHand& asked = *planner;
  LearnedPlan policy("g10", std::move(planner), Tier::kHost);
  options.device_bytes = 64 * kMiB;
  options.host_bytes = 512 * kMiB;
  open(policy);
  const CuStream on = stream();
  constexpr std::size_t kLayers = 12;
  std::vector<Buffer> weights;
  for (std::size_t i = 0; i < kLayers; ++i) {
    weights.push_back(allocate(4 * kMiB));
    fill(on, weights.back(), i);
  }
  for (std::uint64_t number = 1; number <= 30; ++number) {
    step(on, weights, number, kLayers);
  }
  synchronize(on);
  platform->wait_until_idle();
  EXPECT_GE(asked.asked(), 1);
  EXPECT_GE(policy.plans(), 1U);
  // Then a program that the plan does not know.
  for (std::uint64_t number = 31; number <= 38; ++number) {
    step(on, weights, number, 5 + number % 4);
  }
  for (const Buffer& weight : weights) {
    check(on, weight);
  }
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
  platform.reset();  // before its policy
}

}  // namespace
}  // namespace spillway::cuda
