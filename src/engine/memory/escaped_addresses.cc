// See escaped_addresses.h.
#include "engine/memory/escaped_addresses.h"

#include <vector>

#include "engine/broken.h"

namespace spillway {

Status EscapedAddresses::check() const {
  std::vector<bool> known(space_->block_slots());
  for (const BlockId id : clean_) {
    known[id] = true;
  }
  for (BlockId id = 0; id < known.size(); ++id) {
    if (is_clean(id) && (is_reached() || !known[id])) {
      return broken(id, "it may be written unseen, and counts as copied down");
    }
  }
  return {};
}

}  // namespace spillway
