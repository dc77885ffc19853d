// See exposed.h.
#include "engine/exposed.h"

#include <vector>

#include "engine/broken.h"

namespace spillway {

Status Exposed::check() const {
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
