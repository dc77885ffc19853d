// DeepUM: learn which kernel follows which and which blocks each one faults on, and prefetch for
// the next N kernels. Layer: policy. Sections 4 and 5 of the paper.
#pragma once

#include <optional>
#include <string_view>

#include "engine/policy.h"
#include "policy/correlation/block_table.h"
#include "policy/correlation/execution_table.h"
#include "policy/correlation/expected_blocks.h"
#include "policy/correlation/prefetch_chain.h"
#include "policy/habits/prefetch_brake.h"
#include "policy/habits/result_reach.h"
#include "policy/prediction/predicted_launches.h"
#include "policy/updates/updated_blocks.h"

namespace spillway {

struct PolicyOptions;

struct DeepUmOptions {
  std::uint32_t degree = 32;  // N: how many kernels ahead (section 6.2, "a sweet spot")
  BlockTableShape table;
  // Not in the paper: prefetch less far where more comes in than without, and what is dead for no
  // more kernels to come than it pays for.
  bool brake = false;
  // Nor this: frames made ready for what a kernel to come will write (result_reach.h). Where a use
  // of memory without a frame faults, and so tells whether that was right.
  bool results_ahead = false;
};
// The paper's parameters.
[[nodiscard]] DeepUmOptions deepum_options(const PolicyOptions& options);
// As G10 evaluates it: N = 8.
[[nodiscard]] DeepUmOptions deepum_plus_options(const PolicyOptions& options);

class DeepUm final : public Policy {
 public:
  DeepUm(std::string_view name, const DeepUmOptions& options);

  [[nodiscard]] std::string_view name() const override { return name_; }
  void on_launch(const Launch& launch, Control& control) override;
  void on_fault(const Launch& launch, BlockId block, Control& control) override;
  // Learnt like a fault: only a machine that sees nothing else has to wait for those.
  void on_access(const Launch& launch, BlockId block, Control& control) override;
  void on_faults(const Launch& launch, Control& control) override;
  // What updates use at the host is not prefetched, whatever the tables say.
  void on_update(UpdateStage stage, const Launch& launch, Control& control) override;
  void on_allocate(AllocationId id, Control& control) override;
  // The least recently migrated block that neither the current nor the next N kernels are expected
  // to use (section 5.1).
  std::optional<BlockId> select_victim(Cause cause, BlockId incoming,
                                       const Control& control) override;

 private:
  void learn(const Launch& launch, BlockId block);
  void follow_chain(Control& control);
  void make_results_ready(ResultReach& reach, Control& control);

  std::string_view name_;
  ExecutionTable executions_;
  BlockTables blocks_;
  PredictedLaunches predicted_;
  ExpectedBlocks expected_;
  PrefetchChain chain_;
  // With the brake: the same way once more, for what is dead.
  PrefetchChain results_;
  std::optional<PrefetchBrake> brake_;
  std::optional<ResultReach> result_reach_;
  UpdatedBlocks updated_;
  ExecutionHistory history_;
  ExecutionId current_ = kNoExecution;
  BlockId last_fault_ = kNoBlock;
  BlockId scan_from_ = kNoBlock;  // no victim older than this one
};

}  // namespace spillway
