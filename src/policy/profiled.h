// A policy that plans, on a platform that meets its program as it runs: on-demand paging until one
// iteration is known, the plan for it from then on. Layer: policy.
// Launches are found in the plan by their execution ids, tensors by the allocations that they lived
// in; a launch that the plan does not know, or a tensor that has come to lie elsewhere, is paged.
// A plan that stops the program more often than paging did is given up.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/policy.h"
#include "policy/base_uvm.h"
#include "policy/planned.h"
#include "policy/planning/plan.h"
#include "policy/planning/plan_worth.h"
#include "policy/prediction/recorded_iteration.h"

namespace spillway {

// The iteration as a planner has to see it: tensors take room from when Profiled makes it ready,
// which is a little before their first use. Kernels and tensors keep their numbers.
[[nodiscard]] Trace with_room_ahead(Trace trace);

class Profiled final : public Policy {
 public:
  explicit Profiled(std::string_view name) : name_(name) {}

  // To be called between two iterations. `overflow` takes what must leave without a plan.
  void follow(const RecordedIteration& iteration, Plan plan, Tier overflow);
  [[nodiscard]] bool follows_plan() const { return planned_.has_value(); }
  // There was a plan, and paging did better.
  [[nodiscard]] bool gave_up() const { return gave_up_; }

  [[nodiscard]] std::string_view name() const override { return name_; }
  void on_launch(const Launch& launch, Control& control) override;
  void on_fault(const Launch& launch, BlockId block, Control& control) override;
  void on_launch_end(const Launch& launch, Control& control) override;
  void on_update(UpdateStage stage, const Launch& launch, Control& control) override;
  std::optional<BlockId> select_victim(Cause cause, BlockId incoming,
                                       const Control& control) override;
  [[nodiscard]] Tier eviction_tier(BlockId block, const Control& control) override;

 private:
  [[nodiscard]] std::optional<std::uint32_t> position_of(const Launch& launch) const;
  void begin_position(Planned& planned, const Launch& launch, std::uint32_t position,
                      Control& control);
  void end_position(Planned& planned, std::uint32_t position, Control& control);
  void adopt_births(Planned& planned, std::uint32_t position);
  void make_ready(std::uint32_t birth, Control& control);

  std::string_view name_;
  BaseUvm paging_;
  std::optional<Planned> planned_;
  PlanWorth worth_;
  bool gave_up_ = false;
  std::unordered_map<ExecutionId, std::vector<std::uint32_t>> positions_;  // ascending
  // Tensors that an iteration brings, with their allocations, by the position of their first use.
  std::vector<std::vector<std::pair<TensorId, AllocationId>>> births_;
  // The births for which memory is made ready when the launch at a position ends.
  std::vector<std::vector<std::uint32_t>> ready_after_;
  std::unordered_map<LaunchId, std::uint32_t> running_;  // launches that have a position
  std::uint32_t next_ = 0;                               // the position that is expected to begin
};

}  // namespace spillway
