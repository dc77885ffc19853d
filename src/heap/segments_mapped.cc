// Tensors in memory that the program maps itself: PyTorch's expandable segments
// (docs/interposer.md). See segments.h.
#include <algorithm>
#include <utility>

#include "heap/segments.h"

namespace spillway {
namespace {

// All that begin in these bytes.
void erase_in(std::map<std::uint64_t, Bytes>& ranges, std::uint64_t address, Bytes bytes) {
  ranges.erase(ranges.lower_bound(address), ranges.lower_bound(address + bytes));
}

bool any_in(const std::map<std::uint64_t, Bytes>& ranges, std::uint64_t address, Bytes bytes) {
  const auto behind = ranges.lower_bound(address + bytes);
  return behind != ranges.begin() && std::prev(behind)->first + std::prev(behind)->second > address;
}

}  // namespace

// It may be a piece that the program has put back where it was, or another.
void Segments::mapped(std::uint64_t address, Bytes bytes) {
  const MutexLock lock(mutex_);
  look_at_written();
  const Index index = add_segment({.address = address, .bytes = bytes});
  Segment& segment = segments_[index];
  segment.mapped = true;
  segment.whole = any_in(whole_addresses_, address, bytes);
  for_each_living_in(address, bytes,
                     [&](std::uint64_t /*start*/, Bytes /*bytes*/) { ++segment.tensors; });
}

// To the platform it lives again: what becomes of it, and what it holds, is not ours to know.
void Segments::unmapped(std::uint64_t address) {
  const MutexLock lock(mutex_);
  look_at_written();
  const Index index = segment_of(address);
  if (index == kNone || segments_[index].address != address || !segments_[index].mapped) {
    return;
  }
  (void)revive(segments_[index]);
  const Segment gone = remove_segment(index);
  if (gone.whole) {
    whole_addresses_[gone.address] = gone.bytes;
  }
}

void Segments::addresses_ended(std::uint64_t address, Bytes bytes) {
  const MutexLock lock(mutex_);
  look_at_written();
  end_all_in(address, bytes);
  erase_in(whole_addresses_, address, bytes);
}

void Segments::end_all_in(std::uint64_t address, Bytes bytes) {
  std::vector<std::uint64_t> over;
  for_each_living_in(address, bytes,
                     [&](std::uint64_t start, Bytes /*bytes*/) { over.push_back(start); });
  for (const std::uint64_t start : over) {
    (void)end(start);
  }
}

// Two things of the program's never have the same bytes at once. So what lies at an address, and is
// no tensor that is known, ends before the next that is, and begins behind the one before.
std::optional<Segments::Meant> Segments::meant_by(std::uint64_t address) {
  const MutexLock lock(mutex_);
  look_at_written();
  const auto is_mapped = [this](Index index) SPILLWAY_REQUIRES(mutex_) {
    return index != kNone && segments_[index].mapped;
  };
  if (!is_mapped(segment_of(address)) && !is_mapped(segment_of(address - 1))) {
    return std::nullopt;
  }
  Meant meant;
  std::uint64_t from = 0;
  std::uint64_t to = ~std::uint64_t{0};
  const auto look_at = [&](const std::pair<const std::uint64_t, Bytes>& living) {
    const std::uint64_t end = living.first + living.second;
    if (living.first > address) {
      to = living.first;
    } else if (address < end) {
      meant.in = {.start = living.first, .bytes = living.second};
    } else {
      from = std::max(from, end);
      if (address == end) {
        meant.ends = {.start = living.first, .bytes = living.second};
      }
    }
  };
  const auto behind = in_order_.upper_bound(address);
  if (behind != in_order_.end()) {
    look_at(*behind);
  }
  if (behind != in_order_.begin()) {
    look_at(*std::prev(behind));
  }
  if (meant.in.start == address && behind != in_order_.begin() &&
      std::prev(behind) != in_order_.begin()) {
    look_at(*std::prev(behind, 2));
  }
  meant.between = {.start = from, .bytes = to - from};
  return meant;
}

}  // namespace spillway
