// Which blocks are to leave the device, for whom, and how much room that will make: victims whose
// frames are promised, copies ahead of need that policies request, and moves from host memory to
// storage. Layer: engine.
#pragma once

#include <array>
#include <deque>
#include <optional>

#include "base/error.h"
#include "engine/memory/space.h"

namespace spillway {

class EvictionQueue {
 public:
  explicit EvictionQueue(Space& space) : space_(&space) {}

  // --- Victims: their frame is promised to somebody else -----------------------------------------
  void promise(BlockId id, Tier to);
  // It has left, or stays.
  void take_back_promise(Block& block);
  [[nodiscard]] Bytes promised_bytes() const { return promised_bytes_; }

  // --- Copies ahead of need ---------------------------------------------------------------------
  // `stays`: it is only to be copied, not to give up its frame.
  void wish(BlockId id, Tier to, bool stays);
  void take_back_wish(Block& block);
  // The copy of a block that was wished out begins or ends.
  void copy_begins(const Block& block, Tier to) { ahead_bytes_[index_of(to)] += block.bytes; }
  void copy_ended(const Block& block, Tier to) { ahead_bytes_[index_of(to)] -= block.bytes; }
  // Wished for or under way.
  [[nodiscard]] Bytes ahead_bytes(Tier to) const { return ahead_bytes_[index_of(to)]; }

  // The next one to leave for this cause to this tier, taken out of its queue; nullopt if there is
  // none.
  [[nodiscard]] std::optional<BlockId> take(Cause cause, Tier to);

  // --- Host memory to storage -------------------------------------------------------------------
  void wish_down(BlockId id);
  [[nodiscard]] std::optional<BlockId> take_down();

  // copying_bytes: of copies ahead of need that are under way.
  [[nodiscard]] Status check(Bytes copying_bytes) const;

 private:
  static std::size_t index_of_queue(Cause cause) { return cause == Cause::kEvict ? 0 : 1; }
  void push(Cause cause, Tier to, BlockId id);
  [[nodiscard]] bool stale(Cause cause, Tier to, BlockId id) const;

  Space* space_;
  // [room, ahead][to]; may hold stale entries: the block's own fields decide.
  std::array<std::array<std::deque<BlockId>, kTierCount>, 2> queues_;
  std::deque<BlockId> down_;
  Bytes promised_bytes_ = 0;
  std::array<Bytes, kTierCount> ahead_bytes_{};
};

}  // namespace spillway
