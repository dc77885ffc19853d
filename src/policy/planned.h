// Carries out a plan: requests each of its transfers at its place in the iteration. Layer: policy.
// Where the program strays from the plan (a fault, no room), the tensor that is needed last leaves.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/policy.h"
#include "policy/planning/plan.h"
#include "policy/prediction/next_use.h"
#include "policy/updates/updated_blocks.h"
#include "trace/trace.h"

namespace spillway {

class Planned final : public Policy {
 public:
  // What leaves where nothing was planned to.
  enum class Victims : std::uint8_t {
    kNeededLast,  // for a fault; a prefetch waits for room that was planned
    kOldest,      // what came to the device first, as the driver does, for prefetches too
  };

  // `overflow` takes what must leave without a plan. Allocations must carry their tensor's number
  // as tag, launches their kernel's index as position.
  Planned(std::string_view name, const Trace& trace, Plan plan, Tier overflow,
          Victims victims = Victims::kNeededLast);

  // From now on a tensor also lies where the launch of its kernel names it: allocations then may be
  // shared by tensors that never live at once. Launches must name the operands of their kernels in
  // the order of the trace, those that are read first; one that names another number binds none.
  void bind_operands(const Trace& trace);

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] const Plan& plan() const { return plan_; }

  // The tensor is the one that lives in this allocation from now on, and nothing else does.
  void adopt(TensorId tensor, AllocationId id);

  void on_allocate(AllocationId id, Control& control) override;
  void on_launch(const Launch& launch, Control& control) override;
  void on_fault(const Launch& launch, BlockId block, Control& control) override;
  void on_launch_end(const Launch& launch, Control& control) override;
  // What updates use at the host is not fetched, whatever the plan says.
  void on_update(UpdateStage stage, const Launch& launch, Control& control) override;
  std::optional<BlockId> select_victim(Cause cause, BlockId incoming,
                                       const Control& control) override;
  [[nodiscard]] Tier eviction_tier(BlockId /*block*/, const Control& /*control*/) override {
    return overflow_;
  }

 private:
  void carry_out(std::size_t position, Control& control);
  void bind(const Launch& launch);

  std::string_view name_;
  Plan plan_;
  Tier overflow_;
  Victims victims_;
  std::vector<std::vector<TensorId>> operands_;  // by kernel, of bind_operands
  NextUse next_use_;
  UpdatedBlocks updated_;
  std::vector<AllocationId> allocations_;  // by tensor
  std::vector<TensorId> tenants_;          // by allocation: whose `allocations_` it is
  // How far select_victim has come since the last launch: everything before it could not be
  // evicted.
  std::optional<NextUse::Order::const_reverse_iterator> scan_;
  std::uint32_t scan_block_ = 0;
};

}  // namespace spillway
