// What the children of a fork find at the program's addresses. Layer: platform, host.
// A child shares the pages that reside when it is made, as after any fork. For the blocks that do
// not, it stops at a fault like its parent, and the parent answers with the bytes of the moment of
// the fork: their places below are kept for as long as a child may ask for them. Children move
// nothing themselves.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/ids.h"
#include "base/units.h"
#include "platform/host/slot_pool.h"
#include "platform/host/userfault.h"

namespace spillway::host {

// Where a block's bytes are kept for a child.
struct KeptPlace {
  std::uint64_t host = kNoPlace;
  std::uint64_t storage = kNoPlace;
  Bytes bytes = 0;
};
using Snapshot = std::unordered_map<BlockId, KeptPlace>;

// Places that snapshots need, and that nobody else may have before the last of them is gone.
// Thread-safe.
class KeptPlaces {
 public:
  void keep(std::uint64_t place);
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
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, References> references_;
};

struct Child {
  Userfault userfault;
  std::optional<Snapshot> snapshot;  // nullopt: it was made behind our back
};

}  // namespace spillway::host
