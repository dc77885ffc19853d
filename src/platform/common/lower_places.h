// Where the bytes of blocks lie below the device: offsets in host memory and in the swap file.
// Layer: platform, common. Not thread-safe, but for `keep_again`.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "engine/types.h"
#include "platform/common/kept_places.h"
#include "platform/common/storage/slot_pool.h"

namespace spillway {

class LowerPlaces {
 public:
  // Offsets run from 0 to those sizes.
  LowerPlaces(Bytes host_bytes, Bytes storage_bytes)
      : tiers_{Places(host_bytes), Places(storage_bytes)} {}

  // A place for the block; false if nothing is free.
  [[nodiscard]] bool take(BlockId block, Tier tier, Bytes bytes);
  // It needs none there any more. `bytes` as when it was taken. Nothing happens if it has none.
  void give_back(BlockId block, Tier tier, Bytes bytes);
  // kNoPlace if it has none.
  [[nodiscard]] std::uint64_t at(BlockId block, Tier tier) const;

  // Whether a snapshot needs the block's place: then the bytes there must stay as they are.
  [[nodiscard]] bool is_kept(BlockId block, Tier tier);
  // The block's bytes of this moment stay where they are until `release`.
  [[nodiscard]] KeptPlace keep(BlockId block, Tier tier, Bytes bytes);
  // A second snapshot of the same places. Any thread's, while the first one is held.
  void keep_again(const Snapshot& snapshot);
  void release(const Snapshot& snapshot);

 private:
  struct Places {
    explicit Places(Bytes bytes) : slots(bytes) {}
    SlotPool slots;
    KeptPlaces kept;
    std::vector<std::uint64_t> at;  // by block
  };
  Places& places(Tier tier) { return tiers_[tier == Tier::kHost ? 0 : 1]; }

  std::array<Places, 2> tiers_;
};

}  // namespace spillway
