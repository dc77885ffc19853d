// See large_heap.h.
#include "heap/large_heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace spillway {

namespace {

// Of the last block that it uses of a larger place: nobody else's until it is freed.
Bytes spare_bytes(Bytes size, Bytes place_bytes) {
  return place_bytes > size ? std::min(place_bytes, round_up(size, kBlockBytes)) - size : 0;
}

}  // namespace

// Where frames still lie: who asks for changing sizes would else take them from one place to the
// next, a stop for each block. Of what was freed last, so that the rest can go.
LargeHeap::Place LargeHeap::warm_place(Bytes size) const {
  constexpr int kLookedAt = 32;
  constexpr Bytes kTimesLarger = 8;
  constexpr Bytes kSparePart = 16;  // of what was ever in use, or a block
  if (own_places_.contains(size)) {
    return {};
  }
  const Bytes most_spare_bytes = std::max(kBlockBytes, most_used_bytes_ / kSparePart);
  int looks = 0;
  for (auto last = by_age_.rbegin(); last != by_age_.rend() && looks < kLookedAt; ++last, ++looks) {
    const auto [its_size, start] = last->second;
    if (its_size >= size && its_size <= kTimesLarger * size &&
        spare_bytes_ + spare_bytes(size, its_size) <= most_spare_bytes &&
        platform_.ready_for_reuse(start, size)) {
      return {.start = start, .size = its_size};
    }
  }
  return {};
}

// Memory of other sizes comes again and again beside it: it would go round the places for ever.
void LargeHeap::note_kept_from(Bytes size, bool has_its_own) {
  constexpr std::size_t kSizesMost = 64;
  const auto taken = in_part_.find(size);
  if (has_its_own || taken == in_part_.end()) {
    return;
  }
  if (own_places_.size() >= kSizesMost) {
    own_places_.clear();
  }
  own_places_.insert(taken->second);
}

// Where this asker was last, else the lowest address, so that the same requests meet the same
// answers; but where no frames lie there, and somewhere else they do, there. That is asked only
// until something alive has had to leave: then addresses are worth more than frames.
LargeHeap::Place LargeHeap::take_retired(Bytes size, std::uint64_t place) {
  auto found = retired_.lower_bound({size, nullptr});
  if (const auto last = last_at_.find(place); place != kAnyPlace && last != last_at_.end()) {
    if (const auto same = retired_.find({size, last->second}); same != retired_.end()) {
      found = same;
    }
  }
  if (!platform_.addresses_had_better_repeat()) {
    const bool ready = found != retired_.end() && found->first.first == size &&
                       platform_.ready_for_reuse(found->first.second, size);
    note_kept_from(size, ready);
    if (const Place warm = ready ? Place{} : warm_place(size); warm.start != nullptr) {
      found = retired_.find({warm.size, warm.start});
      size = warm.size;
    }
  }
  if (found == retired_.end() || found->first.first != size) {
    return {};
  }
  const Place taken{.start = found->first.second, .size = size};
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
  const MutexLock lock(mutex_);
  const Place taken = take_retired(size, place);
  void* start = taken.start;
  if (start == nullptr) {
    const Result<void*> made = make(size, zeros);
    if (!made) {
      error = made.error();
      return nullptr;
    }
    start = *made;
  } else if (const Status reused =
                 taken.size > size ? platform_.reuse_first(start, size) : platform_.reuse(start);
             !reused) {
    error = reused.error();
    keep_retired(start, taken.size);
    return nullptr;
  } else {
    zeros = false;
  }
  used_[static_cast<char*>(start)] = {.size = size,
                                      .asked_bytes = round_up(bytes, kPageBytes),
                                      .place_bytes = taken.size > size ? taken.size : 0};
  if (taken.size > size) {
    in_part_[taken.size] = size;
  }
  used_bytes_ += size;
  spare_bytes_ += spare_bytes(size, taken.size);
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

// Four times what it needs now, as long as that is no great part of the addresses that there are.
void* LargeHeap::allocate_with_room(std::size_t bytes, Error& error) {
  constexpr Bytes kTimes = 4;
  constexpr Bytes kRoomMax = 4 * kGiB;
  const Bytes size = size_of(bytes);
  const Bytes most_bytes = round_up(size + std::min((kTimes - 1) * size, kRoomMax), kBlockBytes);
  const MutexLock lock(mutex_);
  while (true) {
    const Result<void*> made =
        platform_.allocate_with_room(size, most_bytes, ProgramPlatform::Fresh::kAnything);
    if (made) {
      used_[static_cast<char*>(*made)] = {
          .size = size, .asked_bytes = round_up(bytes, kPageBytes), .most_bytes = most_bytes};
      used_bytes_ += size;
      most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
      return *made;
    }
    if (by_age_.empty()) {
      error = made.error();
      return nullptr;
    }
    give_up_oldest();
  }
}

bool LargeHeap::grow(void* start, std::size_t bytes) {
  const MutexLock lock(mutex_);
  const auto found = used_.find(static_cast<char*>(start));
  if (found == used_.end() || found->second.marks) {  // pages behind it may be gone
    return false;
  }
  Used& used = found->second;
  const Bytes size = size_of(bytes);
  if (size > used.size) {
    if (size > used.most_bytes || !platform_.grow(start, size)) {
      return false;
    }
    used_bytes_ += size - used.size;
    most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
    used.size = size;
  }
  used.asked_bytes = round_up(bytes, kPageBytes);
  return true;
}

bool LargeHeap::free(void* start) {
  const MutexLock lock(mutex_);
  const auto found = used_.find(static_cast<char*>(start));
  if (found == used_.end()) {
    return false;
  }
  end(found);
  return true;
}

// What has lost parts is given up as a whole: its addresses are good for nobody as they are.
void LargeHeap::end(UsedAt::iterator used) {
  char* const start = used->first;
  const Bytes size = used->second.size;
  const Bytes place_bytes = std::max(size, used->second.place_bytes);
  if (used->second.marks) {
    ::mprotect(start, used->second.asked_bytes, PROT_READ | PROT_WRITE);
    used->second.marks.reset();
    release_unmarked(used->second);
  }
  // So is what had room to grow: whoever has these addresses next needs none, and the addresses are
  // many.
  const bool whole = !used->second.in_parts && used->second.most_bytes == 0;
  used_.erase(used);
  used_bytes_ -= size;
  spare_bytes_ -= spare_bytes(size, place_bytes);
  if (place_bytes > size) {
    in_part_.erase(place_bytes);
  }
  if (!whole) {
    platform_.free(start);
    return;
  }
  platform_.retire(start);
  keep_retired(start, place_bytes);
  trim();
}

std::size_t LargeHeap::usable_bytes(void* start) {
  const MutexLock lock(mutex_);
  const auto found = used_.find(static_cast<char*>(start));
  return found == used_.end() ? 0 : found->second.size;
}

// --- Pages ---------------------------------------------------------------------------------------

// The allocation in which this address lies.
LargeHeap::UsedAt::iterator LargeHeap::at(const void* address) {
  const auto* const place = static_cast<const char*>(address);
  auto after = used_.upper_bound(const_cast<char*>(place));  // NOLINT(*-const-cast): only compared
  if (after == used_.begin()) {
    return used_.end();
  }
  const auto found = std::prev(after);
  return place < found->first + found->second.size ? found : used_.end();
}

PageMarks& LargeHeap::marks_of(Used& used) {
  if (!used.marks) {
    used.marks.emplace(used.size);
  }
  return *used.marks;
}

std::optional<LargeHeap::Part> LargeHeap::first_part(void* start, Bytes bytes) {
  char* const begin = static_cast<char*>(start);
  const MutexLock lock(mutex_);
  auto found = at(start);
  if (found == used_.end()) {
    found = used_.lower_bound(begin);
  }
  if (found == used_.end() || found->first >= begin + bytes) {
    return std::nullopt;
  }
  char* const from = std::max(begin, found->first);
  char* const to = std::min(begin + bytes, found->first + found->second.size);
  return Part{.start = from, .bytes = static_cast<Bytes>(to - from)};
}

LargeHeap::Uncleared LargeHeap::clear(const Part& pages) {
  const MutexLock lock(mutex_);
  const auto found = at(pages.start);
  const Used& used = found->second;
  const auto from = static_cast<Bytes>(pages.start - found->first);
  const Bytes to = from + pages.bytes;
  // The last block may be shorter, and ends with the memory, unless more lies behind that.
  const bool to_the_end =
      used.most_bytes == 0 && used.place_bytes == 0 && to == round_up(used.asked_bytes, kPageBytes);
  Uncleared left;
  for (Bytes block = from / kBlockBytes * kBlockBytes; block < to; block += kBlockBytes) {
    const Bytes end = std::min(block + kBlockBytes, used.size);
    const Bytes first = std::max(from, block);
    const Part part{.start = found->first + first, .bytes = std::min(to, end) - first};
    // Blocks that are held belong to launches, which nothing may change.
    if (used.held.contains(block)) {
      left.held.push_back(part);
    } else if (from <= block && (to >= block + kBlockBytes || to_the_end)) {
      platform_.clear(found->first + block, end - block);
    } else {
      left.parts.push_back(part);
    }
  }
  return left;
}

bool LargeHeap::has_all(const Part& pages) {
  const MutexLock lock(mutex_);
  const auto found = at(pages.start);
  const Used& used = found->second;
  const auto from = static_cast<Bytes>(pages.start - found->first);
  return !used.marks || !used.marks->any(from, from + pages.bytes, PageMarks::kGone);
}

void LargeHeap::give_up(const Part& pages) {
  const MutexLock lock(mutex_);
  const auto found = at(pages.start);
  Used& used = found->second;
  const auto from = static_cast<Bytes>(pages.start - found->first);
  const Bytes to = from + pages.bytes;
  if (from == 0 && to >= used.asked_bytes) {
    end(found);
    return;
  }
  PageMarks& marks = marks_of(used);
  if (!used.held.empty()) {
    ::mprotect(pages.start, pages.bytes, PROT_READ | PROT_WRITE);
    marks.remove(from, to, PageMarks::kProtected | PageMarks::kLocked);
    release_unmarked(used);
  }
  // What lies behind what was asked for is nobody's.
  const auto gone = [&](Bytes begin, Bytes end) {
    return marks.all(begin, std::min(end, used.asked_bytes), PageMarks::kGone);
  };
  for (Bytes block = from / kBlockBytes * kBlockBytes; block < to; block += kBlockBytes) {
    const Bytes end = std::min(block + kBlockBytes, used.size);
    const bool before = gone(block, end);
    marks.add(std::max(from, block), std::min(to, end), PageMarks::kGone);
    if (!before && gone(block, end)) {
      platform_.give_up(found->first + block, end - block);
      used.in_parts = true;
    }
  }
  if (gone(0, used.asked_bytes)) {
    end(found);
  }
}

bool LargeHeap::hold(const Part& pages, PageMarks::Mark mark) {
  const MutexLock lock(mutex_);
  const auto found = at(pages.start);
  Used& used = found->second;
  const auto from = static_cast<Bytes>(pages.start - found->first);
  for (Bytes block = from / kBlockBytes * kBlockBytes; block < from + pages.bytes;
       block += kBlockBytes) {
    if (!hold_block(found->first, used, block)) {
      release_unmarked(used);
      return false;
    }
  }
  marks_of(used).add(from, from + pages.bytes, mark);
  return true;
}

// A launch that uses the block and does not end keeps it where it is.
bool LargeHeap::hold_block(char* start, Used& used, Bytes block) {
  if (used.held.contains(block)) {
    return true;
  }
  const ProgramOperand operand{.start = start + block,
                               .bytes = std::min(kBlockBytes, used.size - block),
                               .mode = AccessMode::kWrite};
  if (platform_.fit({&operand, 1}).state != LaunchState::kReady) {
    return false;
  }
  used.held.emplace(block, platform_.begin_launch("held", {&operand, 1}));
  return true;
}

void LargeHeap::release_unmarked(Used& used) {
  for (auto held = used.held.begin(); held != used.held.end();) {
    const Bytes block = held->first;
    if (used.marks && used.marks->any(block, std::min(block + kBlockBytes, used.size),
                                      PageMarks::kProtected | PageMarks::kLocked)) {
      ++held;
    } else {
      platform_.end_launch(held->second);
      held = used.held.erase(held);
    }
  }
}

void LargeHeap::release(const Part& pages, PageMarks::Mark mark) {
  const MutexLock lock(mutex_);
  const auto found = at(pages.start);
  Used& used = found->second;
  if (used.marks) {
    const auto from = static_cast<Bytes>(pages.start - found->first);
    used.marks->remove(from, from + pages.bytes, mark);
    release_unmarked(used);
  }
}

void LargeHeap::release_all(PageMarks::Mark mark) {
  const MutexLock lock(mutex_);
  for (auto& entry : used_) {
    Used& used = entry.second;
    if (used.marks) {
      used.marks->remove(0, used.size, mark);
      release_unmarked(used);
    }
  }
}

void LargeHeap::note(const Part& pages, PageMarks::Mark mark) {
  const MutexLock lock(mutex_);
  const auto found = at(pages.start);
  const auto from = static_cast<Bytes>(pages.start - found->first);
  marks_of(found->second).add(from, from + pages.bytes, mark);
}

bool LargeHeap::has_mark(const void* address, unsigned marks) {
  const MutexLock lock(mutex_);
  const auto found = at(address);
  if (found == used_.end()) {
    return false;
  }
  const auto offset = static_cast<Bytes>(static_cast<const char*>(address) - found->first);
  const Bytes page = offset / kPageBytes * kPageBytes;
  const Used& used = found->second;
  return used.marks && used.marks->any(page, page + kPageBytes, marks);
}

std::vector<LargeHeap::Part> LargeHeap::parts(unsigned with, unsigned without) {
  const MutexLock lock(mutex_);
  std::vector<Part> found;
  for (const auto& entry : used_) {
    char* const start = entry.first;
    const Used& used = entry.second;
    if (used.marks) {
      used.marks->for_runs(with, without, [&found, start](Bytes begin, Bytes end) {
        found.push_back({.start = start + begin, .bytes = end - begin});
      });
    }
  }
  return found;
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
