// The correlator and the prefetcher of DeepUM, driven by the engine's events. See deepum.h.
#include "policy/deepum.h"

#include "engine/memory/page_queues.h"
#include "policy/registry.h"

namespace spillway {

namespace {

// `degree`: where the options say nothing of it.
DeepUmOptions made_of(const PolicyOptions& options, std::uint32_t degree) {
  DeepUmOptions result;
  result.degree = options.prefetch_degree.value_or(degree);
  result.table.num_rows = options.table_rows.value_or(result.table.num_rows);
  result.brake = options.prefetch_brake;
  result.results_ahead = options.results_ahead;
  return result;
}

}  // namespace

DeepUmOptions deepum_options(const PolicyOptions& options) {
  return made_of(options, DeepUmOptions().degree);
}

DeepUmOptions deepum_plus_options(const PolicyOptions& options) { return made_of(options, 8); }

DeepUm::DeepUm(std::string_view name, const DeepUmOptions& options)
    : name_(name),
      blocks_(options.table),
      predicted_(executions_, options.degree),
      expected_(blocks_),
      chain_(predicted_, blocks_),
      results_(predicted_, blocks_) {
  if (options.brake) {
    brake_.emplace(options.degree);
  }
  if (options.results_ahead) {
    result_reach_.emplace(options.degree);
  }
}

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
  if (brake_) {
    brake_->launched(executions_.executions());
    chain_.set_reach(brake_->reach());
  }
  chain_.advance(as_predicted);
  if (result_reach_) {
    result_reach_->launched();
    results_.set_reach(result_reach_->looks_ahead());
    results_.advance(as_predicted);
  }
  follow_chain(control);
}

void DeepUm::on_fault(const Launch& launch, BlockId block, Control& control) {
  const Block& faulted = control.space().block(block);
  if (brake_ && faulted.contents == Contents::kLive) {
    brake_->demanded(faulted.bytes);
  }
  if (result_reach_) {
    result_reach_->used(block, false);
    result_reach_->wanted(block);
  }
  learn(launch, block);
}

void DeepUm::on_update(UpdateStage stage, const Launch& launch, Control& /*control*/) {
  updated_.hear(stage, launch);
}

void DeepUm::learn(const Launch& launch, BlockId block) {
  updated_.used(block);
  if (launch.execution == kNoExecution) {
    return;
  }
  blocks_.of(launch.execution).fault(last_fault_, block);
  expected_.touch(block);
  last_fault_ = block;
}

void DeepUm::on_access(const Launch& launch, BlockId block, Control& /*control*/) {
  learn(launch, block);
}

// The faults of one launch arrive together; the chain goes on behind the last of them.
void DeepUm::on_faults(const Launch& launch, Control& control) {
  if (launch.execution == kNoExecution) {
    return;
  }
  chain_.restart(last_fault_);
  results_.restart(last_fault_);
  follow_chain(control);
}

// Memory that was dead comes into use: with what is there of it.
void DeepUm::on_allocate(AllocationId id, Control& control) {
  if (!result_reach_) {
    return;
  }
  const Allocation& allocation = control.space().allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const BlockId block = allocation.first_block + i;
    result_reach_->used(block, control.space().block(block).copies.has(Tier::kDevice));
  }
}

void DeepUm::follow_chain(Control& control) {
  if (brake_ && !brake_->prefetches()) {
    return;
  }
  if (result_reach_) {
    make_results_ready(*result_reach_, control);
  }
  while (true) {
    const std::optional<PrefetchCommand> command = chain_.next();
    if (!command) {
      return;
    }
    // A block that is there is left where it is in the queue: the order of victims is that of
    // migrations, not of prefetch commands (section 5.1).
    if (control.usable(command->block) || updated_.wanted_at_host(command->block)) {
      continue;
    }
    // A dead one has nothing that could move, and its frame would be taken from the living long
    // before somebody writes to it: that has a reach of its own.
    const Block& block = control.space().block(command->block);
    if (brake_ && block.contents == Contents::kDiscarded && command->distance > 0) {
      continue;
    }
    if (block.contents == Contents::kLive && !control.on_its_way(command->block)) {
      if (brake_) {
        brake_->prefetched(block.bytes);
      }
      if (result_reach_) {
        result_reach_->wanted(command->block);
      }
    }
    control.prefetch(command->block);
  }
}

// What comes soon comes first, so this is before the chain goes on.
void DeepUm::make_results_ready(ResultReach& reach, Control& control) {
  while (true) {
    const std::optional<PrefetchCommand> command = results_.next();
    if (!command) {
      return;
    }
    const bool is_result = command->distance > 0 &&
                           control.space().block(command->block).contents == Contents::kDiscarded;
    if (is_result && reach.expect(command->block, command->distance)) {
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
      if (result_reach_) {
        result_reach_->leaves_for(id, incoming);
      }
      return id;
    }
    scan_from_ = queues.newer(id);
  }
  return std::nullopt;
}

}  // namespace spillway
