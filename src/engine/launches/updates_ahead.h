// The blocks that issued updates (Launch::runs_at) will use when they are admitted, in the order of
// issue, so that those in storage can come to host memory meanwhile. Layer: engine.
// Moves nothing. docs/engine.md, "Updates".
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "engine/memory/for_each_block.h"
#include "engine/types.h"

namespace spillway {

class UpdatesAhead {
 public:
  // The update has been issued.
  void issued(const Launch& update) {
    for_each_block(update, [this](BlockId id, const Access& /*access*/) {
      ++named_[id];
      queue_.push_back(id);
    });
  }
  // It is admitted, or withdrawn.
  void over(const Launch& update) {
    for_each_block(update, [this](BlockId id, const Access& /*access*/) {
      const auto found = named_.find(id);
      if (found != named_.end() && --found->second == 0) {
        named_.erase(found);
      }
    });
    if (named_.empty()) {
      queue_.clear();
    }
  }
  // Whether such an update names the block.
  [[nodiscard]] bool names(BlockId id) const { return named_.contains(id); }
  [[nodiscard]] bool any() const { return !named_.empty(); }

  // The first block for which `lacks` holds: those before it are not asked about again, as they are
  // there, or somebody else sees to them. kNoBlock if there is none.
  template <typename Lacks>
  [[nodiscard]] BlockId next(Lacks lacks) {
    while (!queue_.empty() && !(names(queue_.front()) && lacks(queue_.front()))) {
      queue_.pop_front();
    }
    return queue_.empty() ? kNoBlock : queue_.front();
  }

 private:
  std::unordered_map<BlockId, std::uint32_t> named_;  // and by how many operands
  std::deque<BlockId> queue_;
};

}  // namespace spillway
