// The correlator and the prefetcher of DeepUM, driven by the engine's events. See deepum.h.
#include "policy/deepum.h"

#include "engine/page_queues.h"
#include "policy/registry.h"

namespace spillway {

DeepUmOptions deepum_options(const PolicyOptions& options) {
  DeepUmOptions result;
  result.degree = options.prefetch_degree.value_or(result.degree);
  result.table.num_rows = options.table_rows.value_or(result.table.num_rows);
  return result;
}

DeepUmOptions deepum_plus_options(const PolicyOptions& options) {
  DeepUmOptions result;
  result.degree = options.prefetch_degree.value_or(8);
  result.table.num_rows = options.table_rows.value_or(result.table.num_rows);
  return result;
}

DeepUm::DeepUm(std::string_view name, const DeepUmOptions& options)
    : name_(name),
      blocks_(options.table),
      predicted_(executions_, options.degree),
      expected_(blocks_),
      chain_(predicted_, blocks_) {}

void DeepUm::on_launch(const Launch& launch, Control& control) {
  if (launch.execution == kNoExecution) {
    return;
  }
  if (current_ != kNoExecution) {
    executions_.update(history_, current_, launch.execution);
    history_.push(current_);
  }
  current_ = launch.execution;
  if (launch.tells_all) {
    // What it faulted on while the program was still finding its places may be nobody's business
    // now.
    blocks_.of(current_) = BlockTable(blocks_.shape());
  }
  last_fault_ = kNoBlock;
  scan_from_ = kNoBlock;
  const bool as_predicted = predicted_.advance(current_, history_);
  expected_.advance(predicted_);
  chain_.advance(as_predicted);
  follow_chain(control);
}

void DeepUm::on_fault(const Launch& launch, BlockId block, Control& /*control*/) {
  if (launch.execution == kNoExecution) {
    return;
  }
  blocks_.of(launch.execution).fault(last_fault_, block);
  expected_.touch(block);
  last_fault_ = block;
}

void DeepUm::on_access(const Launch& launch, BlockId block, Control& control) {
  on_fault(launch, block, control);
}

// The faults of one launch arrive together; the chain goes on behind the last of them.
void DeepUm::on_faults(const Launch& launch, Control& control) {
  if (launch.execution == kNoExecution) {
    return;
  }
  chain_.restart(last_fault_);
  follow_chain(control);
}

void DeepUm::follow_chain(Control& control) {
  while (true) {
    const std::optional<PrefetchCommand> command = chain_.next();
    if (!command) {
      return;
    }
    // A block that is there is left where it is in the queue: the order of victims is that of
    // migrations, not of prefetch commands (section 5.1).
    if (!control.usable(command->block)) {
      control.prefetch(command->block);
    }
  }
}

std::optional<BlockId> DeepUm::select_victim(Cause cause, BlockId incoming,
                                             const Control& control) {
  if (cause == Cause::kFault) {
    return Policy::select_victim(cause, incoming, control);
  }
  const PageQueues& queues = control.queues();
  // Blocks that this launch has passed over once are expected until the next one.
  if (scan_from_ == kNoBlock || control.space().block(scan_from_).queue != PageQueue::kUsed) {
    scan_from_ = queues.oldest(PageQueue::kUsed);
  }
  while (scan_from_ != kNoBlock) {
    const BlockId id = scan_from_;
    if (!expected_.expected(id) && control.evictable(id)) {
      return id;
    }
    scan_from_ = queues.newer(id);
  }
  return std::nullopt;
}

}  // namespace spillway
