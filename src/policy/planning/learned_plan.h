// A policy that plans, on a device that runs behind its program: the queue decides until one
// iteration is known, the plan for it from then on. Layer: policy. docs/policies.md.
// An iteration is recorded as it is issued, the planner asked, and its plan taken up where a later
// iteration begins. A tensor of the plan is bound to the allocation in which a launch at its place
// names it when that launch is admitted; what the plan says about one that is not bound waits for
// that. Where launches stray from the plan the queue decides, and after a few such iterations all
// begins anew. Costs time at most, never bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/policy.h"
#include "policy/lookahead.h"
#include "policy/planning/planned_ahead.h"
#include "policy/planning/planner.h"
#include "policy/prediction/issued_iteration.h"
#include "policy/prediction/iteration_finder.h"
#include "policy/prediction/launch_places.h"

namespace spillway {

class LearnedPlan final : public Policy {
 public:
  LearnedPlan(std::string_view name, std::unique_ptr<Planner> planner, Tier overflow)
      : name_(name), planner_(std::move(planner)), overflow_(overflow) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] LaunchWindow window() const override { return {.launches_per_stream = 4}; }
  [[nodiscard]] bool wants_kinds() const override { return true; }
  void on_issue(const Launch& launch, Control& control) override;
  void on_allocate(AllocationId id, Control& control) override;
  void on_death_said(AllocationId id) override;
  void on_launch(const Launch& launch, Control& control) override;
  void on_launch_end(const Launch& launch, Control& control) override;
  void on_update(UpdateStage stage, const Launch& launch, Control& control) override {
    ahead_.on_update(stage, launch, control);
  }
  std::optional<BlockId> select_victim(Cause cause, BlockId incoming,
                                       const Control& control) override;
  [[nodiscard]] Tier eviction_tier(BlockId block, const Control& control) override;

  [[nodiscard]] bool follows_plan() const { return places_.has_value(); }
  // How many plans have been taken up.
  [[nodiscard]] std::uint64_t plans() const { return plans_; }
  // Launches of the iteration that is followed; 0: none is.
  [[nodiscard]] std::size_t plan_launches() const { return places_ ? places_->size() : 0; }

 private:
  enum class Phase : std::uint8_t { kWaiting, kRecording, kEnding, kPlanning, kFollowing };
  void iteration_begins(const Control& control);
  void follow(Plan plan, const Control& control);
  void watch();
  void dead(AllocationId id);
  void bind(const Launch& launch, std::uint32_t place);
  [[nodiscard]] Launch placed(const Launch& launch) const;

  std::string_view name_;
  std::unique_ptr<Planner> planner_;
  Tier overflow_;

  Phase phase_ = Phase::kWaiting;
  IterationFinder finder_;
  std::uint64_t launches_ = 0;         // since an iteration began
  std::uint64_t launches_before_ = 0;  // of the one before
  bool pressed_ = false;               // something has had to leave
  std::vector<bool> dead_;             // by allocation: what it holds
  IssueRecorder recorder_;
  std::optional<IssuedIteration> iteration_;  // that is planned for

  Planned* planned_ = nullptr;  // ahead_'s, while a plan is followed
  PlannedAhead ahead_;
  AheadOfLaunches frames_{AheadOfLaunches::What::kFrames, 512 * kMiB};  // beside a plan
  std::optional<LaunchPlaces> places_;                                  // of the plan's iteration
  std::uint32_t strayed_in_a_row_ = 0;
  std::uint32_t may_stray_ = 2;  // iterations that may stray; twice as many each time
  std::uint64_t plans_ = 0;
};

}  // namespace spillway
