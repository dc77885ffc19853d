#include "policy/correlation/prefetch_chain.h"

namespace spillway {

void PrefetchChain::restart(BlockId faulted_block) {
  running_ = begin_part(0);
  if (!running_) return;
  // Nothing has been given out yet: the part begins at the fault instead of the start block.
  queue_.clear();
  ++part_;
  enqueue(faulted_block);
  given_out_ = 1;
}

void PrefetchChain::advance(bool as_predicted) {
  if (!running_) return;
  if (as_predicted && distance_ > 0) {
    --distance_;
  } else {
    begin_part(0);
  }
}

std::optional<PrefetchCommand> PrefetchChain::next() {
  while (running_) {
    if (given_out_ < queue_.size()) {
      return PrefetchCommand{.block = queue_[given_out_++],
                             .for_execution = launches_.at(distance_),
                             .distance = distance_};
    }
    if (follow()) continue;
    if (distance_ >= reach_) return std::nullopt;
    running_ = begin_part(distance_ + 1);
  }
  return std::nullopt;
}

bool PrefetchChain::begin_part(std::uint32_t distance) {
  if (launches_.current() == kNoExecution || distance > launches_.count()) return false;
  distance_ = distance;
  table_ = tables_.find(launches_.at(distance));
  queue_.clear();
  given_out_ = 0;
  followed_ = 0;
  ++part_;
  if (table_ != nullptr && table_->start() != kNoBlock) enqueue(table_->start());
  return true;
}

void PrefetchChain::enqueue(BlockId block) {
  if (block >= seen_in_part_.size()) seen_in_part_.resize(std::size_t{block} + 1);
  if (seen_in_part_[block] == part_) return;
  seen_in_part_[block] = part_;
  queue_.push_back(block);
}

bool PrefetchChain::follow() {
  if (followed_ == queue_.size()) return false;
  const BlockId block = queue_[followed_++];
  if (table_ != nullptr && block != table_->end()) {
    for (const BlockId successor : table_->successors(block)) enqueue(successor);
  }
  return true;
}

}  // namespace spillway
