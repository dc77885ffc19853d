// See handle_pool.h.
#include "platform/sim/handle_pool.h"

namespace spillway::sim {

TimeNs HandlePool::take(Bytes bytes) {
  if (free_.take(bytes)) {
    return 0;
  }
  TimeNs calls_ns = costs_.create_ns;
  while (bytes_ + bytes > budget_bytes_ && release_oldest()) {
    calls_ns += costs_.release_ns;
  }
  bytes_ += bytes;
  ++made_;
  return calls_ns;
}

bool HandlePool::release_oldest() {
  const Bytes released_bytes = free_.take_oldest();
  bytes_ -= released_bytes;
  released_bytes_ += released_bytes;
  return released_bytes > 0;
}

}  // namespace spillway::sim
