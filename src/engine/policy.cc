// What a policy does that says nothing of its own. See policy.h.
#include "engine/policy.h"

#include "engine/memory/page_queues.h"

namespace spillway {

std::optional<BlockId> Policy::select_victim(Cause /*cause*/, BlockId /*incoming*/,
                                             const Control& control) {
  const PageQueues& queues = control.queues();
  for (BlockId id = queues.oldest(PageQueue::kUsed); id != kNoBlock; id = queues.newer(id)) {
    if (control.evictable(id)) {
      return id;
    }
  }
  return std::nullopt;
}

}  // namespace spillway
