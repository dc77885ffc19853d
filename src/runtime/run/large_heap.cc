// See large_heap.h.
#include "runtime/run/large_heap.h"

#include <algorithm>

namespace spillway {

// Where this asker was last, else the lowest address, so that the same requests meet the same
// answers.
void* LargeHeap::take_retired(Bytes size, std::uint64_t place) {
  const auto found = retired_.find(size);
  if (found == retired_.end()) {
    return nullptr;
  }
  std::set<void*>& starts = found->second;
  auto start = starts.begin();
  if (const auto last = last_at_.find(place); place != kAnyPlace && last != last_at_.end()) {
    if (const auto same = starts.find(last->second); same != starts.end()) {
      start = same;
    }
  }
  void* const taken = *start;
  starts.erase(start);
  if (starts.empty()) {
    retired_.erase(found);
  }
  retired_bytes_ -= size;
  return taken;
}

void* LargeHeap::allocate(std::size_t bytes, std::uint64_t place, bool& zeros, Error& error) {
  const Bytes size = size_of(bytes);
  const std::scoped_lock lock(mutex_);
  void* start = take_retired(size, place);
  if (start == nullptr) {
    using Fresh = ProgramPlatform::Fresh;
    const Result<void*> made = platform_.allocate(size, zeros ? Fresh::kZeros : Fresh::kAnything);
    if (!made) {
      error = made.error();
      return nullptr;
    }
    start = *made;
  } else if (const Status reused = platform_.reuse(start); !reused) {
    error = reused.error();
    retired_[size].insert(start);
    retired_bytes_ += size;
    return nullptr;
  } else {
    zeros = false;
  }
  sizes_[start] = size;
  if (place != kAnyPlace) {
    last_at_[place] = start;
  }
  return start;
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
