// A policy around another one: it delays a launch rather than evict, while the peak of live memory
// fits or nearly fits. Layer: policy.
// Programs issue far ahead of the device, so memory that they have freed can be taken only when the
// device has come to its last use. A launch that is admitted before that evicts memory that could
// have stayed. So as long as the peak fits, or nearly does, a launch that finds too little room is
// admitted when those before it have ended, and prefetches evict nothing. Where all of it fits,
// launches are admitted however few at once the policy wants: no victim has to be chosen, and each
// launch that waits costs a stream wait. Where something must leave, many launches of little memory
// are admitted at once, for the same reason. All else is the inner policy's.
#pragma once

#include "engine/policy.h"

namespace spillway {

class AdmissionGovernor final : public Policy {
 public:
  // The policy must outlive it.
  explicit AdmissionGovernor(Policy& policy) : policy_(policy) {}

  // So much is or was alive at once, of a device with this budget. If it is much too much, there is
  // nothing to wait for from now on: something must leave in any case.
  void alive_at_most(Bytes bytes, Bytes budget_bytes) {
    constexpr Bytes kNearlyPart = 8;
    ended_ = ended_ || bytes > budget_bytes + budget_bytes / kNearlyPart;
    all_fits_ = bytes <= budget_bytes;
  }
  // The execution id of launches that stand for bypassed calls or keep their memory: the policy
  // does not hear of them.
  static constexpr ExecutionId kPlaceholder = kNoExecution - 1;
  // Whatever the policy and we ourselves would say.
  void let_all_in(bool all) { all_in_ = all; }

  // So many launches of one stream are admitted together, in any case, if the budget has room for
  // them.
  [[nodiscard]] std::uint32_t always_together() const;

  // Whether what was ever alive at once does.
  [[nodiscard]] bool all_fits() const { return all_fits_ && !ended_; }

  [[nodiscard]] std::string_view name() const override { return policy_.name(); }
  [[nodiscard]] LaunchWindow window() const override;
  void on_issue(const Launch& launch, Control& control) override;
  void on_launch(const Launch& launch, Control& control) override;
  void on_fault(const Launch& launch, BlockId block, Control& control) override {
    if (launch.execution != kPlaceholder) {
      policy_.on_fault(launch, block, control);
    }
  }
  void on_access(const Launch& launch, BlockId block, Control& control) override {
    if (launch.execution != kPlaceholder) {
      policy_.on_access(launch, block, control);
    }
  }
  void on_faults(const Launch& launch, Control& control) override {
    if (launch.execution != kPlaceholder) {
      policy_.on_faults(launch, control);
    }
  }
  void on_launch_end(const Launch& launch, Control& control) override;
  void on_update(UpdateStage stage, const Launch& launch, Control& control) override {
    policy_.on_update(stage, launch, control);
  }
  void on_allocate(AllocationId id, Control& control) override { policy_.on_allocate(id, control); }
  void on_death_said(AllocationId id) override { policy_.on_death_said(id); }
  [[nodiscard]] bool wants_kinds() const override { return policy_.wants_kinds(); }
  [[nodiscard]] bool recomputes() const override { return policy_.recomputes(); }
  void on_give_up(AllocationId id) override { policy_.on_give_up(id); }
  std::optional<BlockId> select_host_victim(BlockId incoming, const Control& control) override {
    return policy_.select_host_victim(incoming, control);
  }
  std::optional<BlockId> select_victim(Cause cause, BlockId incoming,
                                       const Control& control) override {
    return cause == Cause::kPrefetch && !ended_ ? std::nullopt
                                                : policy_.select_victim(cause, incoming, control);
  }
  std::optional<BlockId> select_clean_victim(Cause cause, const Control& control) override {
    return cause == Cause::kPrefetch && !ended_ ? std::nullopt
                                                : policy_.select_clean_victim(cause, control);
  }
  [[nodiscard]] Tier eviction_tier(BlockId block, const Control& control) override {
    return policy_.eviction_tier(block, control);
  }

 private:
  Policy& policy_;
  bool ended_ = false;
  bool all_fits_ = false;
  bool all_in_ = false;
  Bytes largest_bytes_ = 0;           // no launch so far has used more
  Bytes admitted_bytes_ = 0;          // of launches that have not ended; blocks count for each
  const Control* control_ = nullptr;  // the engine, once it has said something
  const Launch* issuing_ = nullptr;   // being issued, and not yet one that waits
  LaunchId issuing_id_ = kNoLaunch;
};

}  // namespace spillway
