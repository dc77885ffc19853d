// What launches that are issued and not admitted yet will use: the queue is the future, known
// exactly. Layer: engine. docs/engine.md.
// Each block has a list of the launches that claim it, in the order of issue; the first of them is
// its next use. Used blocks that may leave are listed with their next launch, so that the one that
// is needed last is found at once.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "engine/launches/launch_table.h"
#include "engine/launches/order_index.h"
#include "engine/memory/space.h"

namespace spillway {

class PendingUses {
 public:
  PendingUses(Space& space, LaunchTable& launches) : space_(&space), launches_(&launches) {}

  // The launch has been issued and waits for its admission.
  void issued(std::uint32_t slot);
  // It claims the block. True if it is the first one to do so.
  bool add(BlockId id, std::uint32_t slot);
  // It is no longer issued only (LaunchTable says so already): others come before it no more.
  void admitted(std::uint32_t slot);
  // Forgets the block's claims by launches that have been admitted.
  void settle(BlockId id);
  // A block of the used queue may leave now, or may not.
  void set_may_leave(BlockId id, bool may);

  // When the block is used next, as far as issued launches say; kNever if they do not.
  [[nodiscard]] LaunchSeq next_use(BlockId id) const;
  // The launch that will do so; kNoLaunch if there is none.
  [[nodiscard]] LaunchId next_launch(BlockId id) const;
  // The last issued launch that claims it; kNoLaunch if there is none.
  [[nodiscard]] LaunchId last_launch(BlockId id) const;
  // Of the blocks that may leave and that an issued launch names, one that is needed last; kNoBlock
  // if there is none.
  [[nodiscard]] BlockId needed_last() const;
  // The launch that is issued only and comes after this one in the order of issue, or first if
  // there is no such launch (any more); nullptr if there is none.
  [[nodiscard]] const Launch* next_issued(LaunchId after) const;
  // This one, if it is issued only; nullptr otherwise.
  [[nodiscard]] const Launch* issued_only(LaunchId id) const;
  [[nodiscard]] std::size_t waiting() const { return order_.size(); }

  [[nodiscard]] Status check() const;

 private:
  struct PendingUse {
    LaunchId launch = kNoLaunch;
    std::uint32_t next = kNoIndex;
  };
  static constexpr OrderIndex::Mark kIssuedOnly = OrderIndex::Mark::kFirst;
  static constexpr OrderIndex::Mark kHasListed = OrderIndex::Mark::kSecond;

  void list(BlockId id);
  void unlist(BlockId id);
  [[nodiscard]] std::uint32_t next_slot(const Block& block) const {
    return LaunchTable::slot_of(pending_uses_[block.first_claim].launch);
  }

  Space* space_;
  LaunchTable* launches_;
  std::vector<PendingUse> pending_uses_;
  std::uint32_t free_claim_ = kNoIndex;
  OrderIndex order_;  // slots of launches that are issued only
};

}  // namespace spillway
