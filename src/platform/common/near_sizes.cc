// See near_sizes.h.
#include "platform/common/near_sizes.h"

#include <algorithm>
#include <iterator>

#include "platform/common/gpu_sizes.h"

namespace spillway {
namespace {

constexpr Bytes kNearPart = 8;
// What a byte costs that is in use at the peak for nothing, in bytes that need not change places.
// In simulated steps of GPT-2 XL half a GiB less memory costs 15 ms, half a GiB that changes places
// 1 to 3.
constexpr Bytes kPeakWeighs = 8;

// Smaller ones share frames.
bool counts(Bytes size) { return size >= kBlockBytes; }

bool near(Bytes size, Bytes larger) { return larger <= size + size / kNearPart; }

}  // namespace

// Sizes from here on have no near ones: such memory is mostly frames of the largest size anyway.
NearSizes::Sizes::iterator NearSizes::of_several_frames() {
  return sizes_.upper_bound(kLargestBlockBytes);
}

void NearSizes::note_most(Sizes::iterator born) {
  const auto note = [](Size& size, Bytes larger, std::uint64_t others) {
    std::uint64_t& most = size.most_with[larger];
    most = std::max(most, size.now + others);
  };
  Size& own = born->second;
  own.most = std::max(own.most, own.now);
  if (born->first > kLargestBlockBytes) {
    return;
  }
  const auto end = of_several_frames();
  for (auto at = std::next(born); at != end && near(born->first, at->first); ++at) {
    note(own, at->first, at->second.now);
  }
  for (auto at = born; at != sizes_.begin() && near(std::prev(at)->first, born->first); --at) {
    note(std::prev(at)->second, born->first, own.now);
  }
}

void NearSizes::born(Bytes size) {
  bytes_ += size;
  if (counts(size)) {
    const auto it = sizes_.try_emplace(size).first;
    ++it->second.now;
    note_most(it);
  }
  if (bytes_ > peak_bytes_) {
    peak_bytes_ = bytes_;
    const auto end = of_several_frames();
    for (auto at = sizes_.begin(); at != end; ++at) {
      at->second.at_peak = at->second.now;
    }
  }
}

void NearSizes::died(Bytes size) {
  bytes_ -= size;
  if (counts(size)) {
    --sizes_.at(size).now;
  }
}

// Memory is kept by size, so each size takes as much of the addresses as it ever had in use at
// once, and what exceeds the device changes places in each round. Two sizes together need no more
// than they had at once; but each of the smaller ones takes more. 0: nothing is saved.
Bytes NearSizes::saved_bytes(Sizes::const_iterator size, Bytes larger,
                             std::uint64_t most_at_once) const {
  const Size& own = size->second;
  const std::uint64_t others = sizes_.at(larger).most;
  const std::uint64_t together = std::max({most_at_once, own.most, others});
  const Bytes apart_bytes = own.most * size->first + others * larger;
  const Bytes cost_bytes = together * larger + kPeakWeighs * own.at_peak * (larger - size->first);
  return apart_bytes - std::min(apart_bytes, cost_bytes);
}

// Whether this size itself had better be another.
bool NearSizes::moves(Bytes size) const {
  const auto it = sizes_.find(size);
  return std::any_of(
      it->second.most_with.begin(), it->second.most_with.end(),
      [&](const auto& with) { return saved_bytes(it, with.first, with.second) > 0; });
}

Bytes NearSizes::better(Bytes size) const {
  const auto it = sizes_.find(size);
  if (it == sizes_.end()) {
    return size;
  }
  Bytes best = size;
  Bytes most_saved_bytes = 0;
  for (const auto& [larger, most_at_once] : it->second.most_with) {
    const Bytes bytes = saved_bytes(it, larger, most_at_once);
    if (bytes > most_saved_bytes && !moves(larger)) {
      most_saved_bytes = bytes;
      best = larger;
    }
  }
  return best;
}

}  // namespace spillway
