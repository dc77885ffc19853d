// See free_block_index.h.
#include "heap/free_block_index.h"

#include <algorithm>

namespace spillway {
namespace {

// Stale entries are dropped where there are more of them than others, and than these.
constexpr std::size_t kFew = 1024;

constexpr auto kHigher = [](const auto& a, const auto& b) { return a.address > b.address; };

}  // namespace

FreeBlockIndex::Sizes::iterator FreeBlockIndex::at_least(Sizes& sizes, Bytes size) {
  return std::lower_bound(sizes.begin(), sizes.end(), size,
                          [](const OfSize& of, Bytes bytes) { return of.size < bytes; });
}

// Lists of sizes that a program asks for once must not gather.
FreeBlockIndex::OfSize& FreeBlockIndex::of_size(Sizes& sizes, Bytes size) {
  auto at = at_least(sizes, size);
  if (at != sizes.end() && at->size == size) {
    return *at;
  }
  if (sizes.size() > kFew && sizes.size() > 2 * count_) {
    for (OfSize& of : sizes) {
      drop_stale(of);
    }
    std::erase_if(sizes, [](const OfSize& of) { return of.lowest_first.empty(); });
    at = at_least(sizes, size);
  }
  return *sizes.insert(at, {.size = size});
}

void FreeBlockIndex::drop_stale(OfSize& of) const {
  std::vector<Entry>& entries = of.lowest_first;
  while (!entries.empty() && is_stale(entries.front().slot, entries.front().since)) {
    std::pop_heap(entries.begin(), entries.end(), kHigher);
    entries.pop_back();
  }
}

void FreeBlockIndex::keep(Stream stream, Bytes size, std::uint64_t address, Slot slot) {
  states_.resize(std::max(states_.size(), slot + std::size_t{1}));
  states_[slot] = {.since = ++last_, .size = size};
  ++count_;
  bytes_ += size;
  OfSize& of = of_size(streams_[stream], size);
  std::vector<Entry>& entries = of.lowest_first;
  if (entries.size() >= std::max(of.clean_at, kFew)) {
    std::erase_if(entries, [this](const Entry& it) { return is_stale(it.slot, it.since); });
    std::make_heap(entries.begin(), entries.end(), kHigher);
    of.clean_at = 2 * entries.size();
  }
  entries.push_back({.address = address, .since = last_, .slot = slot});
  std::push_heap(entries.begin(), entries.end(), kHigher);
  oldest_first_.push_back({.since = last_, .slot = slot});
  if (oldest_first_.size() > kFew + 2 * count_) {
    std::erase_if(oldest_first_, [this](const Aged& it) { return is_stale(it.slot, it.since); });
  }
}

std::optional<FreeBlockIndex::Found> FreeBlockIndex::find(Stream stream, Bytes size, Bytes most) {
  const auto sizes = streams_.find(stream);
  if (sizes == streams_.end()) {
    return std::nullopt;
  }
  for (auto of = at_least(sizes->second, size); of != sizes->second.end() && of->size <= most;
       ++of) {
    drop_stale(*of);
    if (!of->lowest_first.empty()) {
      return Found{.size = of->size, .slot = of->lowest_first.front().slot};
    }
  }
  return std::nullopt;
}

FreeBlockIndex::Slot FreeBlockIndex::oldest() {
  while (is_stale(oldest_first_.front().slot, oldest_first_.front().since)) {
    oldest_first_.pop_front();
  }
  return oldest_first_.front().slot;
}

std::vector<FreeBlockIndex::Slot> FreeBlockIndex::oldest_first() const {
  std::vector<Slot> slots;
  for (const Aged& it : oldest_first_) {
    if (!is_stale(it.slot, it.since)) {
      slots.push_back(it.slot);
    }
  }
  return slots;
}

std::vector<FreeBlockIndex::Slot> FreeBlockIndex::forget(Stream stream) {
  std::vector<Slot> slots;
  const auto sizes = streams_.find(stream);
  if (sizes == streams_.end()) {
    return slots;
  }
  for (const OfSize& of : sizes->second) {
    for (const Entry& entry : of.lowest_first) {
      if (!is_stale(entry.slot, entry.since)) {
        slots.push_back(entry.slot);
        remove(entry.slot);
      }
    }
  }
  streams_.erase(sizes);
  return slots;
}

void FreeBlockIndex::remove(Slot slot) {
  State& state = states_[slot];
  --count_;
  bytes_ -= state.size;
  state.since = kNotKept;
}

}  // namespace spillway
