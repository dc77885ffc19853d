// See handle_pool.h.
#include "platform/sim/handle_pool.h"

#include <algorithm>

namespace spillway::sim {

TimeNs HandlePool::take(Bytes bytes) {
  if (const auto same = free_.find(bytes); same != free_.end()) {
    same->second.pop_back();
    if (same->second.empty()) {
      free_.erase(same);
    }
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

void HandlePool::give_back(Bytes bytes) { free_[bytes].push_back(given_back_++); }

bool HandlePool::release_oldest() {
  const auto oldest = std::min_element(
      free_.begin(), free_.end(),
      [](const auto& a, const auto& b) { return a.second.front() < b.second.front(); });
  if (oldest == free_.end()) {
    return false;
  }
  bytes_ -= oldest->first;
  released_bytes_ += oldest->first;
  oldest->second.pop_front();
  if (oldest->second.empty()) {
    free_.erase(oldest);
  }
  return true;
}

}  // namespace spillway::sim
