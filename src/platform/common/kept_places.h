// Places below the device that somebody beside the engine still reads: the children of a fork.
// Layer: platform, common.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/units.h"
#include "platform/common/storage/slot_pool.h"

namespace spillway {

// Where a block's bytes are kept.
struct KeptPlace {
  std::uint64_t host = kNoPlace;
  std::uint64_t storage = kNoPlace;
  Bytes bytes = 0;
};
// Of one moment: all blocks that were not on the device then.
using Snapshot = std::unordered_map<BlockId, KeptPlace>;

// Places that snapshots need, and that nobody else may have before the last of them is gone.
// Thread-safe.
class KeptPlaces {
 public:
  void keep(std::uint64_t place);
  [[nodiscard]] bool is_kept(std::uint64_t place);
  // The engine gives the place up: true if it may be reused at once, false if it is kept, and then
  // `unkeep` says when it is free.
  [[nodiscard]] bool give_up(std::uint64_t place);
  // One snapshot less needs it: true if it may be reused now.
  [[nodiscard]] bool unkeep(std::uint64_t place);

 private:
  struct References {
    std::uint32_t count = 0;
    bool given_up = false;
  };
  Mutex mutex_;
  std::unordered_map<std::uint64_t, References> references_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
