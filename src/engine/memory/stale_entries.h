// Queues of blocks from which an entry that is no longer wanted is removed only when it comes up.
// Layer: engine.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "base/ids.h"

namespace spillway {

// To be called for each entry that is added: such entries go before they are more than the others
// could be, and so do all but the first one of a block that is wanted again. Costs a constant time
// an entry. block_of(entry), stale(entry).
template <typename Entry, typename BlockOf, typename Stale>
void forget_stale_entries(std::deque<Entry>& queue, std::size_t block_slots, BlockOf block_of,
                          Stale stale) {
  if (queue.size() <= 2 * block_slots + 64) {
    return;
  }
  std::vector<bool> seen(block_slots);
  std::erase_if(queue, [&](const Entry& entry) {
    const BlockId id = block_of(entry);
    if (stale(entry) || seen[id]) {
      return true;
    }
    seen[id] = true;
    return false;
  });
}

}  // namespace spillway
