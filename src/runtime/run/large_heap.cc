// See large_heap.h.
#include "runtime/run/large_heap.h"

#include <algorithm>

namespace spillway {

// Where this asker was last, else the lowest address, so that the same requests meet the same
// answers.
void* LargeHeap::take_retired(Bytes size, std::uint64_t place) {
  auto found = retired_.lower_bound({size, nullptr});
  if (const auto last = last_at_.find(place); place != kAnyPlace && last != last_at_.end()) {
    if (const auto same = retired_.find({size, last->second}); same != retired_.end()) {
      found = same;
    }
  }
  if (found == retired_.end() || found->first.first != size) {
    return nullptr;
  }
  void* const taken = found->first.second;
  by_age_.erase(found->second);
  retired_.erase(found);
  retired_bytes_ -= size;
  return taken;
}

void LargeHeap::keep_retired(void* start, Bytes size) {
  retired_.emplace(std::pair(size, start), frees_);
  by_age_.emplace(frees_++, std::pair(size, start));
  retired_bytes_ += size;
}

// Dead addresses make room for new ones where there are none left.
Result<void*> LargeHeap::make(Bytes size, bool zeros) {
  using Fresh = ProgramPlatform::Fresh;
  while (true) {
    Result<void*> made = platform_.allocate(size, zeros ? Fresh::kZeros : Fresh::kAnything);
    if (made || by_age_.empty()) {
      return made;
    }
    give_up_oldest();
  }
}

void* LargeHeap::allocate(std::size_t bytes, const Asker& asker, bool& zeros, Error& error) {
  constexpr std::size_t kPlacesMax = std::size_t{1} << 16U;
  const std::uint64_t place = asker.place;
  const Bytes size = size_of(bytes);
  const std::scoped_lock lock(mutex_);
  void* start = take_retired(size, place);
  if (start == nullptr) {
    const Result<void*> made = make(size, zeros);
    if (!made) {
      error = made.error();
      return nullptr;
    }
    start = *made;
  } else if (const Status reused = platform_.reuse(start); !reused) {
    error = reused.error();
    keep_retired(start, size);
    return nullptr;
  } else {
    zeros = false;
  }
  sizes_[start] = size;
  used_bytes_ += size;
  most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
  if (place != kAnyPlace) {
    if (last_at_.size() >= kPlacesMax) {
      last_at_.clear();  // of a program that never comes back to the same places
    }
    last_at_[place] = start;
  }
  if (asker.writes_all && !zeros) {
    platform_.provide(start);
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
  used_bytes_ -= size;
  platform_.retire(start);
  keep_retired(start, size);
  trim();
  return true;
}

std::size_t LargeHeap::usable_bytes(void* start) {
  const std::scoped_lock lock(mutex_);
  const auto found = sizes_.find(start);
  return found == sizes_.end() ? 0 : found->second;
}

// Retired memory costs address space, page tables and bookkeeping, so a program that never asks for
// the same size twice must not gather it: what has waited longest goes first. Several times what is
// in use at once is more than a program that repeats itself leaves behind in one round.
void LargeHeap::trim() {
  constexpr Bytes kKeptTimes = 4;
  while (retired_bytes_ > kKeptTimes * most_used_bytes_) {
    give_up_oldest();
  }
}

void LargeHeap::give_up_oldest() {
  const auto [size, start] = by_age_.begin()->second;
  platform_.free(start);
  by_age_.erase(by_age_.begin());
  retired_.erase({size, start});
  retired_bytes_ -= size;
}

}  // namespace spillway
