// How many bytes each tier may hold and holds, and which copies in the lower tiers are kept only
// while nothing needs their room. Layer: engine. Moves nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <deque>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "engine/memory/space.h"

namespace spillway {

class TierAccounts {
 public:
  TierAccounts(Space& space, const std::array<Bytes, kTierCount>& capacity_bytes);

  [[nodiscard]] Bytes capacity_bytes(Tier tier) const { return at(tier).capacity_bytes; }
  // What is in use already stays, also where that is more.
  void set_capacity(Tier tier, Bytes bytes);
  [[nodiscard]] Bytes used_bytes(Tier tier) const { return at(tier).used_bytes; }
  // Spare copies count as free; what is kept for updates does not.
  [[nodiscard]] Bytes free_bytes(Tier tier) const {
    const Account& account = at(tier);
    const Bytes needed_bytes =
        account.used_bytes - account.spare_bytes + (tier == Tier::kHost ? kept_bytes_ : Bytes{0});
    return account.capacity_bytes > needed_bytes ? account.capacity_bytes - needed_bytes : 0;
  }
  // The same with what is kept for this block.
  [[nodiscard]] Bytes room_for(BlockId id, Tier tier) const {
    return free_bytes(tier) + (tier == Tier::kHost ? kept_for(id) : Bytes{0});
  }

  // As long as the block has no frame in host memory, or only a spare copy, there is room for one.
  void keep_room(BlockId id);
  void end_keeping_room(BlockId id);
  [[nodiscard]] Bytes kept_bytes() const { return kept_bytes_; }
  // What that would keep beside what is kept.
  [[nodiscard]] Bytes bytes_to_keep(BlockId id) const {
    return keeps_room_.contains(id) ? 0 : needs_at_host(space_->block(id));
  }

  // The block gets a frame, for which there is room, or loses the one it has, with whatever copy
  // that holds.
  void take(BlockId id, Tier tier);
  void give_back(BlockId id, Tier tier);

  // A spare copy is one that the device has as well.
  void add_spare(BlockId id, Tier tier);
  void remove_spare(BlockId id, Tier tier);
  // The copy that has been spare for longest and has to go before the tier can take so many bytes
  // more; nullopt if none has to, or none is left.
  [[nodiscard]] std::optional<BlockId> spare_in_the_way(Tier tier, Bytes bytes);

  // From now on the block's device frame, which it does not have, is host memory (docs/cuda.md), or
  // no more.
  void set_host_mapped(BlockId id);
  void end_host_mapped(BlockId id);
  // Of all blocks that are host-mapped.
  [[nodiscard]] Bytes host_mapped_bytes() const { return host_mapped_bytes_; }

  [[nodiscard]] Status check() const;

 private:
  static Bytes bytes_in(const Block& block, Tier tier);
  static Bytes needs_at_host(const Block& block) {
    return block.frames.has(Tier::kHost) && !block.spare.has(Tier::kHost) ? 0 : block.bytes;
  }
  [[nodiscard]] Bytes kept_for(BlockId id) const {
    return keeps_room_.empty() || !keeps_room_.contains(id) ? 0 : needs_at_host(space_->block(id));
  }
  // Around a change of what the block has in host memory.
  template <typename Change>
  void change(BlockId id, const Change& change) {
    const Bytes before_bytes = kept_for(id);
    change();
    kept_bytes_ = kept_bytes_ - before_bytes + kept_for(id);
  }
  struct Account {
    Bytes capacity_bytes = 0;
    Bytes used_bytes = 0;
    Bytes limit_bytes = 0;      // capacity, or what was in use when the capacity shrank
    Bytes spare_bytes = 0;      // of what is in use
    std::deque<BlockId> spare;  // oldest first; may hold stale entries: the block's own set decides
  };
  [[nodiscard]] Account& at(Tier tier) { return accounts_[index_of(tier)]; }
  [[nodiscard]] const Account& at(Tier tier) const { return accounts_[index_of(tier)]; }

  Space* space_;
  std::array<Account, kTierCount> accounts_{};
  std::unordered_set<BlockId> keeps_room_;
  Bytes kept_bytes_ = 0;
  Bytes host_mapped_bytes_ = 0;
};

}  // namespace spillway
