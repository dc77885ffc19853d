// A plan for what lies beyond the queue of issued launches, and the queue for what lies within it.
// Layer: policy. docs/policies.md.
// While the program follows the plan, this is the plan; what the next launches lack all the same is
// asked for before they fault on it. Where the program strays (another shape, an evaluation step),
// the queue says what is needed until it comes back. `name` and `on_allocate` want a plan.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "policy/lookahead.h"
#include "policy/planned.h"

namespace spillway {

class PlannedAhead final : public Policy {
 public:
  // Without a plan: the queue decides everything.
  PlannedAhead() = default;
  explicit PlannedAhead(std::unique_ptr<Planned> planned)
      : planned_(std::move(planned)), strayed_(false) {}

  // From now on this plan, or none; it begins with the next launch of its first position.
  void follow(std::unique_ptr<Planned> planned);

  [[nodiscard]] std::string_view name() const override { return planned_->name(); }
  [[nodiscard]] LaunchWindow window() const override { return {.launches_per_stream = 1}; }
  void on_allocate(AllocationId id, Control& control) override {
    planned_->on_allocate(id, control);
  }
  void on_issue(const Launch& launch, Control& control) override;
  void on_launch(const Launch& launch, Control& control) override;
  void on_launch_end(const Launch& launch, Control& control) override;
  void on_update(UpdateStage stage, const Launch& launch, Control& control) override;
  std::optional<BlockId> select_victim(Cause cause, BlockId incoming,
                                       const Control& control) override;
  [[nodiscard]] Tier eviction_tier(BlockId block, const Control& control) override {
    return planned_->eviction_tier(block, control);
  }

 private:
  void look_ahead(const Launch& launch, Control& control);

  std::unique_ptr<Planned> planned_;
  AheadOfDevice ahead_;  // where it strays
  // What is wished for beside a plan that is followed must not take the link from it: only what the
  // launches that come next lack.
  AheadOfLaunches next_launches_{AheadOfLaunches::What::kContents, 32 * kMiB};
  std::size_t expected_ = 0;  // the position that the plan expects next
  bool strayed_ = true;
};

}  // namespace spillway
