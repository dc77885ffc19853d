// Launches that run on the processor, next to their data (Launch::runs_at): which blocks they use
// in host memory, which of these have to come there first, and which others leave it to make room.
// Layer: engine. Moves nothing. docs/engine.md, "Updates".
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "engine/launch_table.h"
#include "engine/space.h"
#include "engine/updated_order.h"

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

  // --- What those that wait for their admission will use ---

  // The update is issued; it is admitted, or withdrawn.
  void claim(const Launch& launch);
  void end_claim(const Launch& launch);
  [[nodiscard]] bool claims(BlockId id) const { return claims_.contains(id); }

  // --- The next in line ---

  // The update is the next that may be admitted, and has to wait: launches that were issued later
  // leave its blocks alone. kNoIndex: none is.
  void hold_for(std::uint32_t slot, const LaunchTable& launches);
  [[nodiscard]] std::uint32_t held_for() const { return slot_; }
  [[nodiscard]] bool holds(BlockId id) const { return held_.contains(id); }
  // Whether launches on the device have to mind any of them.
  [[nodiscard]] bool any() const { return bytes_ > 0 || slot_ != kNoIndex; }

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
  Space* space_;
  Bytes bytes_ = 0;
  std::unordered_map<BlockId, std::uint32_t> claims_;  // and by how many operands
  std::uint32_t slot_ = kNoIndex;
  std::unordered_set<BlockId> held_;
  std::deque<BlockId> without_room_;
  std::deque<BlockId> to_fetch_;
  UpdatedOrder updated_;
};

}  // namespace spillway
