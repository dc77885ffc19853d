// See large_heap.h.
#include "runtime/host/large_heap.h"

#include <algorithm>

namespace spillway {

void* LargeHeap::allocate(std::size_t bytes, bool& fresh, Error& error) {
  const Bytes size = round_up(std::max<Bytes>(bytes, 1), kSizeStep);
  const std::scoped_lock lock(mutex_);
  fresh = false;
  if (const auto found = retired_.find(size); found != retired_.end()) {
    // The lowest address, not the latest: where the free memory is the same at the start of every
    // iteration, each allocation then lies where it lay in the last one, which is what lets a policy
    // recognize it.
    void* const start = *found->second.begin();
    if (const Status reused = platform_.reuse(start); !reused) {
      error = reused.error();
      return nullptr;
    }
    found->second.erase(found->second.begin());
    if (found->second.empty()) {
      retired_.erase(found);
    }
    retired_bytes_ -= size;
    sizes_[start] = size;
    return start;
  }
  const Result<void*> start = platform_.allocate(size);
  if (!start) {
    error = start.error();
    return nullptr;
  }
  fresh = true;
  sizes_[*start] = size;
  return *start;
}

bool LargeHeap::free(void* start) {
  const std::scoped_lock lock(mutex_);
  const auto found = sizes_.find(start);
  if (found == sizes_.end()) {
    return false;
  }
  const Bytes size = found->second;
  sizes_.erase(found);
  platform_.retire(start);
  retired_[size].insert(start);
  retired_bytes_ += size;
  trim();
  return true;
}

std::size_t LargeHeap::usable_bytes(void* start) {
  const std::scoped_lock lock(mutex_);
  const auto found = sizes_.find(start);
  return found == sizes_.end() ? 0 : found->second;
}

// Retired memory costs address space and bookkeeping only, but a program that never asks for the
// same size twice must not fill either: the largest sizes go first.
void LargeHeap::trim() {
  const Bytes most_bytes = 4 * platform_.capacity_bytes(Tier::kDevice);
  while (retired_bytes_ > most_bytes && !retired_.empty()) {
    const auto largest = std::prev(retired_.end());
    platform_.free(*largest->second.begin());
    largest->second.erase(largest->second.begin());
    retired_bytes_ -= largest->first;
    if (largest->second.empty()) {
      retired_.erase(largest);
    }
  }
}

}  // namespace spillway
