// Launches that run on the processor, next to their data (Launch::runs_at): their order, the blocks
// that they use in host memory, which of these blocks have to come there first, and which other
// blocks leave host memory to make room. Layer: engine. Moves nothing. docs/engine.md, "Updates".
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/launches/launch_table.h"
#include "engine/launches/updated_order.h"
#include "engine/memory/space.h"

namespace spillway {

class Updates {
 public:
  explicit Updates(Space& space) : space_(&space), updated_(space) {}

  // --- What admitted updates use ---

  // One more update uses the block.
  void pin(BlockId id);
  // One less: true if none does any more.
  bool unpin(BlockId id);
  // Of all blocks that updates use.
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  // What the launch would add to that.
  [[nodiscard]] Bytes more_bytes(const Launch& launch) const;

  // --- Who uses what, from its issue to its end ---

  // The update has been issued, and may be admitted as far as is known.
  void issued(std::uint32_t slot, const Launch& launch);
  // It waits for its admission no more.
  void admitted(std::uint32_t slot, const Launch& launch);
  // It has ended, or is to use nothing any more.
  void gone(std::uint32_t slot, const Launch& launch);
  // Whether updates that have not ended name the block.
  [[nodiscard]] bool names(BlockId id) const { return uses_.contains(id); }
  // Whether one of them waits for its admission, and was issued before that.
  [[nodiscard]] bool waits_before(BlockId id, LaunchSeq seq) const;
  // Whether one that has not ended and was issued before it uses the same bytes, and not both only
  // read them. Of accesses that do not say which bytes all are taken to be meant.
  [[nodiscard]] bool behind_another(BlockId id, const Access& access, LaunchSeq seq) const;
  // Whether there are any that have not ended.
  [[nodiscard]] bool any() const { return in_flight_ > 0; }

  // --- Which of them may be admitted ---

  // The first issued of those of which nothing else is known; kNoIndex if there is none.
  [[nodiscard]] std::uint32_t next() const {
    return candidates_.empty() ? kNoIndex : candidates_.begin()->second;
  }
  // It need not be asked about before this block is `let_go`.
  void stand_at(std::uint32_t slot, LaunchSeq seq, BlockId id);
  void let_go(BlockId id);
  // visit(slot, block) for each that stands.
  template <typename Visit>
  void for_each_standing(Visit visit) const {
    for (const auto& [slot, at] : standing_) {
      visit(slot, at.block);
    }
  }

  // --- What has to come to host memory ---

  // The block has to come to host memory, and has no frame there yet. First come, first served.
  void wait_for_room(BlockId id);
  // kNoBlock if none does.
  [[nodiscard]] BlockId first_without_room() const;
  void room_found() { without_room_.pop_front(); }
  // It has a frame there, and its contents lie in storage.
  void fetch(BlockId id) { to_fetch_.push_back(id); }
  [[nodiscard]] std::optional<BlockId> take_fetch();
  // Whether the block waits in either. Looks through them: for checks.
  [[nodiscard]] bool brings(BlockId id) const;
  // It waits no more. True if it had a frame, and nothing has been fetched into that.
  bool forget(BlockId id);
  [[nodiscard]] bool waiting() const { return !without_room_.empty() || !to_fetch_.empty(); }

  // --- What leaves it for them ---

  // The block has been updated: it is not needed before the next iteration (near-memory section
  // 5.3).
  void updated(BlockId id) { updated_.updated(id); }
  // Of the blocks that have been updated the last one for which `can_leave` holds; kNoBlock if
  // there is none.
  template <typename CanLeave>
  [[nodiscard]] BlockId last_updated(CanLeave can_leave) {
    return updated_.last(can_leave);
  }
  // Of the blocks that have been updated the last one, or else any, for which `can_leave` holds;
  // nullopt if there is none. Walks the blocks where none that was updated can.
  template <typename CanLeave>
  [[nodiscard]] std::optional<BlockId> leaves_first(CanLeave can_leave) {
    if (const BlockId id = last_updated(can_leave); id != kNoBlock) {
      return id;
    }
    for (BlockId id = 0; id < space_->block_slots(); ++id) {
      if (can_leave(id)) {
        return id;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] Status check() const;

 private:
  struct Use {
    std::uint32_t slot = kNoIndex;
    bool waits = true;  // for its admission
    LaunchSeq seq = 0;
    Access access;
  };
  struct Standing {
    BlockId block = kNoBlock;
    LaunchSeq seq = 0;
  };

  Space* space_;
  Bytes bytes_ = 0;
  std::size_t in_flight_ = 0;
  std::unordered_map<BlockId, std::vector<Use>> uses_;                // in the order of issue
  std::set<std::pair<LaunchSeq, std::uint32_t>> candidates_;          // and the slot
  std::unordered_map<std::uint32_t, Standing> standing_;              // by slot
  std::unordered_map<BlockId, std::vector<std::uint32_t>> stand_at_;  // slots
  std::deque<BlockId> without_room_;
  std::deque<BlockId> to_fetch_;
  UpdatedOrder updated_;
};

}  // namespace spillway
