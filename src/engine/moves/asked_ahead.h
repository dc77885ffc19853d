// Prefetches and pre-evictions that the program itself asks for between two launches: a block is
// copied down behind the launches that have been issued, or comes back once those are admitted.
// Layer: engine. Moves nothing. docs/engine.md, "What the program asks for".
#pragma once

#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "engine/types.h"

namespace spillway {

class AskedAhead {
 public:
  // --- Copies down -------------------------------------------------------------------------------

  struct Down {
    LaunchSeq behind = 0;  // all launches up to this one
    bool stays = false;    // the block is only to be copied, not to give up its frame
    std::optional<Tier> to =
        std::nullopt;  // if it gives that up; nullopt: host memory, if there is any
  };
  // What has been asked of a block before counts no more; so below.
  void ask_down(BlockId id, const Down& down) {
    ups_.erase(id);
    downs_[id] = down;
  }
  [[nodiscard]] std::optional<Down> down_of(BlockId id) const {
    const auto found = downs_.empty() ? downs_.end() : downs_.find(id);
    return found == downs_.end() ? std::nullopt : std::optional(found->second);
  }

  // --- Ways back ---------------------------------------------------------------------------------

  // Once all launches up to this one have been admitted.
  void ask_up(BlockId id, LaunchSeq behind) {
    downs_.erase(id);
    ups_[id] = behind;
    order_.emplace_back(id, behind);
  }
  [[nodiscard]] bool has_ups() const { return !ups_.empty(); }
  // The first that was asked for, if all launches up to its place were issued before `waiting`.
  [[nodiscard]] std::optional<BlockId> first_up(LaunchSeq waiting) {
    while (!order_.empty()) {
      const auto [id, behind] = order_.front();
      if (const auto found = ups_.find(id); found != ups_.end() && found->second == behind) {
        return behind < waiting ? std::optional(id) : std::nullopt;
      }
      order_.pop_front();
    }
    return std::nullopt;
  }

  // The block has been dealt with, or holds nothing any more.
  void forget(BlockId id) {
    downs_.erase(id);
    ups_.erase(id);
  }

 private:
  std::unordered_map<BlockId, Down> downs_;
  std::unordered_map<BlockId, LaunchSeq> ups_;
  std::deque<std::pair<BlockId, LaunchSeq>> order_;  // of ups_; may hold others
};

}  // namespace spillway
