// A plan for an iteration that is only seen as it is issued, in the simulator: recorded, planned,
// bound, followed, strayed from, made anew.
#include "policy/planning/learned_plan.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "analysis/memory_curve.h"
#include "analysis/vitality.h"
#include "machine/load.h"
#include "platform/sim/replay.h"
#include "platform/sim/simulator.h"
#include "policy/lookahead.h"
#include "policy/planning/g10_planner.h"
#include "policy/registry.h"
#include "trace/generate.h"

namespace spillway {
namespace {

// At once, and the traces are kept.
class PlannerAtHand final : public Planner {
 public:
  PlannerAtHand(const Machine& machine, std::vector<Trace>& asked)
      : machine_(machine), asked_(asked) {}
  void ask(Trace iteration) override {
    plan_ = plan_g10(iteration, analyze_vitality(iteration), machine_, {});
    asked_.push_back(std::move(iteration));
  }
  std::optional<Plan> take() override { return std::exchange(plan_, std::nullopt); }

 private:
  const Machine& machine_;
  std::vector<Trace>& asked_;
  std::optional<Plan> plan_;
};

Trace step_of(std::uint64_t layers) {
  return generate_transformer({.batch_size = 8,
                               .sequence = 256,
                               .width = 768,
                               .heads = 12,
                               .layers = layers,
                               .feed_forward = 3072,
                               .vocabulary = 8000});
}

class LearnedPlanTest : public testing::Test {
 protected:
  LearnedPlanTest() {
    const MemoryCurve curve = memory_curve(trace_, analyze_vitality(trace_));
    machine_.device.capacity_bytes = round_up(curve.peak_live_bytes / 2, kBlockBytes);
    machine_.host.capacity_bytes = round_up(2 * curve.peak_live_bytes, kBlockBytes);
  }

  std::unique_ptr<LearnedPlan> learned() {
    return std::make_unique<LearnedPlan>("g10", std::make_unique<PlannerAtHand>(machine_, asked_),
                                         Tier::kHost);
  }
  // The time of the last iteration of this program.
  TimeNs run(Policy& policy, Program program) {
    PolicyTraits traits = (*find_policy("lookahead"))->traits;
    sim::Simulator simulator(machine_, sim::simulator_options(machine_, traits), policy);
    const std::vector<std::uint32_t> graphs = program.iterations;
    sim::Replay replay(std::move(program),
                       {.tells_deaths = true,
                        .pages = false,
                        .queue_depth = 400,
                        .launch_ns = machine_.host.launch_ns},
                       simulator);
    EXPECT_TRUE(replay.prepare());
    const auto ran = replay.run(graphs, 2);
    EXPECT_TRUE(ran) << (ran ? "" : ran.error().message);
    EXPECT_TRUE(simulator.engine().check_invariants());
    if (!ran || ran->size() < 2) {
      return 0;
    }
    return ran->back().ended_ns - (*ran)[ran->size() - 2].ended_ns;
  }
  Program steps(std::uint32_t count) { return *perturb(trace_, Perturbation::kNone, count, 1); }

  Trace trace_ = step_of(8);
  Machine machine_ = *load_machine("h200");
  std::vector<Trace> asked_;
};

TEST_F(LearnedPlanTest, RecordsTheIterationThatTheProgramRuns) {
  const auto policy = learned();
  (void)run(*policy, steps(12));
  ASSERT_EQ(asked_.size(), 1U);
  EXPECT_EQ(policy->plans(), 1U);
  EXPECT_TRUE(policy->follows_plan());
  const Trace& seen = asked_[0];
  ASSERT_EQ(seen.kernels.size(), trace_.kernels.size());
  TimeNs seen_ns = 0;
  TimeNs real_ns = 0;
  for (std::size_t k = 0; k < seen.kernels.size(); ++k) {
    seen_ns += seen.kernels[k].duration_ns;
    real_ns += trace_.kernels[k].duration_ns;
  }
  EXPECT_EQ(seen_ns, real_ns);
}

// With a link so slow that what leaves decides: nearly as good as a plan that was made from the
// trace, though it knows nothing of what shares a block.
TEST_F(LearnedPlanTest, ComesCloseToAPlanThatIsGiven) {
  machine_.link.to_device_bytes_per_s = machine_.link.from_device_bytes_per_s = 5e9;
  const auto policy = learned();
  const TimeNs learned_ns = run(*policy, steps(12));
  EXPECT_TRUE(policy->follows_plan());
  const auto given = *(*find_policy("g10"))->make_with_queue(trace_, machine_, {});
  const TimeNs given_ns = run(*given, steps(12));
  Lookahead lookahead;
  const TimeNs queue_ns = run(lookahead, steps(12));
  EXPECT_LT(learned_ns, given_ns + given_ns / 4) << queue_ns << " ns with the queue alone";
}

TEST_F(LearnedPlanTest, RecordsNothingWhileEverythingFits) {
  machine_.device.capacity_bytes *= 4;
  const auto policy = learned();
  (void)run(*policy, steps(8));
  EXPECT_TRUE(asked_.empty());
}

// Three iterations alike are enough for a plan, and then the shapes change for good: it is given
// up.
TEST_F(LearnedPlanTest, GivesUpAPlanThatTheProgramHasLeft) {
  Program program = steps(20);
  const Program other = *perturb(trace_, Perturbation::kShapes, 20, 1);
  program.graphs.push_back(other.graphs.back());
  program.tensors = other.tensors;
  for (std::size_t i = 10; i < 20; ++i) {
    program.iterations[i] = 1;
  }
  const auto policy = learned();
  (void)run(*policy, std::move(program));
  EXPECT_EQ(asked_.size(), 2U);
  EXPECT_EQ(policy->plans(), 2U);
}

}  // namespace
}  // namespace spillway
