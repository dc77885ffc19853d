// Blocks whose addresses have escaped: a launch that finds such an address in device memory can
// write the block without naming it. Layer: engine. Each block says whether it is exposed
// (Block::exposed). Here is which launches may write exposed blocks, and which of those blocks have
// copies in lower tiers that become stale as soon as such a launch runs.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "base/error.h"
#include "engine/memory/space.h"
#include "engine/memory/stale_entries.h"

namespace spillway {

class EscapedAddresses {
 public:
  explicit EscapedAddresses(const Space& space) : space_(&space) {}

  // A launch is admitted, or has ended, that may write all of it (Launch::reaches). What lies below
  // of these blocks is to be dropped if they are exposed still.
  [[nodiscard]] std::deque<BlockId> reach() {
    ++reaching_;
    ++times_;
    return std::exchange(clean_, {});
  }
  void end_reach() {
    --reaching_;
    ++times_;
  }
  // Whether such a launch is admitted now, or was since the answer of `times` was this.
  [[nodiscard]] bool is_reached() const { return reaching_ > 0; }
  [[nodiscard]] bool was_reached_since(std::uint64_t times) const {
    return reaching_ > 0 || times_ != times;
  }
  [[nodiscard]] std::uint64_t times() const { return times_; }

  // The block may be exposed, and have copies below that it is to leave with.
  void add_if_clean(BlockId id) {
    if (!is_clean(id)) {
      return;
    }
    clean_.push_back(id);
    forget_stale_entries(
        clean_, space_->block_slots(), [](BlockId one) { return one; },
        [this](BlockId one) { return !is_clean(one); });
  }

  // That all of those are known, and none while they may be written.
  [[nodiscard]] Status check() const;

 private:
  [[nodiscard]] bool is_clean(BlockId id) const {
    const Block& block = space_->block(id);
    return block.exposed && (block.queue == PageQueue::kUnused || !block.spare.empty());
  }

  const Space* space_;
  std::uint32_t reaching_ = 0;
  std::uint64_t times_ = 0;
  std::deque<BlockId> clean_;  // or were so
};

}  // namespace spillway
