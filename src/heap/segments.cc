// See segments.h.
#include "heap/segments.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace spillway {

bool Segments::is_unannounced() const {
  return !always_tells_ && platform_.memory().recycles_unannounced(0);
}

Segments::Index Segments::segment_of(std::uint64_t address) const {
  const auto found = pages_.find(address / kBlockBytes);
  return found == pages_.end() ? kNone : found->second;
}

// --- Segments -----------------------------------------------------------------------------------

Segments::Index Segments::add_segment(const Segment& segment) {
  if (free_indices_.empty()) {
    free_indices_.push_back(static_cast<Index>(segments_.size()));
    segments_.emplace_back();
  }
  const Index index = free_indices_.back();
  free_indices_.pop_back();
  segments_[index] = segment;
  for (Bytes offset = 0; offset < segment.bytes; offset += kBlockBytes) {
    pages_[(segment.address + offset) / kBlockBytes] = index;
  }
  return index;
}

Segments::Segment Segments::remove_segment(Index index) {
  const Segment gone = std::exchange(segments_[index], {});
  for (Bytes offset = 0; offset < gone.bytes; offset += kBlockBytes) {
    pages_.erase((gone.address + offset) / kBlockBytes);
  }
  if (gone.listed) {
    std::erase(empty_, index);
  }
  free_indices_.push_back(index);
  dead_have_changed_ = true;
  return gone;
}

void Segments::made(std::uint64_t address, Bytes bytes) {
  if (bytes < kBlockBytes) {
    return;  // shares its page with others, and is no segment
  }
  const MutexLock lock(mutex_);
  look_at_written();
  (void)add_segment({.address = address, .bytes = bytes});
  bytes_ += bytes;
}

void Segments::freed(std::uint64_t address) {
  const MutexLock lock(mutex_);
  look_at_written();
  const Index index = segment_of(address);
  if (index == kNone || segments_[index].address != address) {
    return;
  }
  const Segment gone = remove_segment(index);
  bytes_ -= gone.bytes;
  divided_bytes_ -= gone.divided ? gone.bytes : 0;
  // An allocator gives back what it has nothing in; whoever else has divided it has ended it all.
  if (gone.tensors > 0) {
    for (TensorPlace& place : tensors_) {
      if (place.bytes > 0 && gone.has(place.address)) {
        in_order_.erase(place.address);
        place.bytes = 0;
        place.ordered = false;
      }
    }
  }
}

void Segments::keep_whole(std::uint64_t address) {
  const MutexLock lock(mutex_);
  look_at_written();
  const auto keep = [this](Index index) SPILLWAY_REQUIRES(mutex_) {
    segments_[index].whole = true;
    (void)revive(segments_[index]);
  };
  if (const Index index = segment_of(address); index != kNone) {
    keep(index);
  }
  for_each_living_in(address, 1, [&](std::uint64_t start, Bytes bytes) SPILLWAY_REQUIRES(mutex_) {
    for_each_segment({.address = start, .bytes = bytes}, keep);
  });
}

// --- Tensors ------------------------------------------------------------------------------------

// In what is mapped the end of one may be the beginning of the next.
Segments::Index Segments::first_segment(const TensorPlace& place) const {
  if (place.segment != kNone && segments_[place.segment].has(place.address)) {
    return place.segment;
  }
  const std::uint64_t end = place.address + place.bytes;
  Index found = segment_of(place.address);
  for (std::uint64_t at = round_up(place.address + 1, kBlockBytes); found == kNone && at < end;
       at += kBlockBytes) {
    found = segment_of(at);
  }
  return found;
}

// A pool of the program's that gives PyTorch a part of an allocation uses the rest itself, and
// nobody tells of that.
void Segments::note_divided(Segment& segment) {
  if (segment.divided || segment.whole) {
    return;
  }
  if (divided_bytes_ + segment.bytes > allocator_bytes_.load(std::memory_order_relaxed)) {
    segment.whole = true;
    return;
  }
  segment.divided = true;
  divided_bytes_ += segment.bytes;
}

// kNone: it is in no segment.
Segments::Index Segments::begin(std::uint64_t address, Bytes bytes) {
  TensorPlace& place = tensors_.make_at(address);
  if (place.bytes > 0) {
    end(place);  // a death that nobody has told of
  }
  const TensorPlace made{.address = address, .bytes = bytes, .segment = place.segment};
  const Index index = first_segment(made);
  if (index == kNone) {
    return kNone;
  }
  const bool is_mapped = segments_[index].mapped;
  if (is_mapped) {
    end_all_in(address, bytes);  // likewise
  } else {
    note_divided(segments_[index]);
  }
  place = made;
  place.segment = index;
  place.ordered = is_mapped || always_tells_;
  if (place.ordered) {
    in_order_[address] = bytes;
  }
  for_each_segment(place,
                   [this](Index one) SPILLWAY_REQUIRES(mutex_) { ++segments_[one].tensors; });
  return index;
}

void Segments::end(TensorPlace& place) {
  if (std::exchange(place.ordered, false)) {
    in_order_.erase(place.address);
  }
  for_each_segment(place, [this](Index index) SPILLWAY_REQUIRES(mutex_) {
    Segment& segment = segments_[index];
    if (--segment.tensors == 0 && !std::exchange(segment.listed, true)) {
      empty_.push_back(index);
    }
  });
  place.bytes = 0;
}

// False: none that is known begins there.
bool Segments::end(std::uint64_t address) {
  TensorPlace* const place = tensors_.at(address);
  if (place == nullptr || place->bytes == 0) {
    return false;
  }
  end(*place);
  return true;
}

void Segments::look_at_written() {
  for (const Written& it : std::span(log_).first(std::exchange(written_, 0))) {
    if (it.bytes > 0) {
      (void)begin(it.address, static_cast<Bytes>(it.bytes));
    } else {
      (void)end(it.address);
    }
  }
}

void Segments::born(std::uint64_t address, Bytes bytes) {
  const MutexLock lock(mutex_);
  look_at_written();
  const Index index = begin(address, bytes);
  if (index != kNone) {
    Segment& segment = segments_[index];
    if (segment.mapped) {
      for_each_segment({.address = address, .bytes = bytes, .segment = index},
                       [this](Index one)
                           SPILLWAY_REQUIRES(mutex_) { (void)revive(segments_[one]); });
    } else if (!revive(segment) && segment.tensors == 2) {
      platform_.recompute().divide(segment.address);
    }
  }
  tell_unless_unannounced();
}

void Segments::asked(std::uint64_t address, Bytes bytes, std::optional<cuda::CuStream> stream) {
  const MutexLock lock(mutex_);
  TensorPlace* const place = tensors_.at(address);
  if (place != nullptr && place->bytes >= bytes) {
    place->asked_bytes = bytes;
    if (const Index index = first_segment(*place); index != kNone) {
      segments_[index].stream = stream;
    }
  }
}

bool Segments::died(std::uint64_t address) {
  const MutexLock lock(mutex_);
  look_at_written();
  const bool was_known = end(address);
  tell_unless_unannounced();
  return was_known;
}

// --- Deaths -------------------------------------------------------------------------------------

void Segments::retire(Segment& segment) {
  segment.dead = true;
  dead_have_changed_ = true;
  dead_told_(segment.address);
  platform_.memory().retire_keeping_room(segment.address, segment.stream);
}

// False: the platform knows that it lives.
bool Segments::revive(Segment& segment) {
  if (!std::exchange(segment.dead, false)) {
    return false;
  }
  dead_have_changed_ = true;
  (void)platform_.memory().reuse(segment.address);  // it has its room
  return true;
}

void Segments::tell_all() {
  for (const Index index : std::exchange(empty_, {})) {
    Segment& segment = segments_[index];
    segment.listed = false;
    if (segment.tensors == 0 && !segment.whole) {
      retire(segment);
    }
  }
}

void Segments::tell_unless_unannounced() {
  writes_down_ = is_unannounced();
  if (!writes_down_) {
    tell_all();
  } else if (std::exchange(dead_have_changed_, false)) {
    dead_.clear();
    for (const Segment& segment : segments_) {
      if (segment.dead) {
        dead_.add(segment.address, segment.bytes);
      }
    }
  }
}

void Segments::tell_deaths() {
  const MutexLock lock(mutex_);
  look_at_written();
  tell_all();
  writes_down_ = false;  // until it is known anew which segments are dead
}

void Segments::always_tell() {
  const MutexLock lock(mutex_);
  always_tells_ = true;
}

// --- What is asked ------------------------------------------------------------------------------

std::optional<Bytes> Segments::asked_alone_at_once(std::uint64_t address) const {
  if (!mutex_.try_lock()) {
    return std::nullopt;
  }
  const MutexLock lock(mutex_, std::adopt_lock);
  const Index index = segment_of(address);
  if (index == kNone || (segments_[index].tensors == 0 && !segments_[index].mapped)) {
    return Bytes{0};
  }
  const Segment& segment = segments_[index];
  const TensorPlace* const place = tensors_.living_at(address);
  const bool alone = place != nullptr && place->asked_bytes > 0 && segment.tensors == 1 &&
                     segment.address == address && !segment.whole && !segment.mapped;
  return alone ? std::optional(place->asked_bytes) : std::nullopt;
}

std::optional<Bytes> Segments::asked_at_once(std::uint64_t address) const {
  if (!mutex_.try_lock()) {
    return std::nullopt;
  }
  const MutexLock lock(mutex_, std::adopt_lock);
  const TensorPlace* const place = tensors_.living_at(address);
  return place != nullptr && place->asked_bytes > 0 ? std::optional(place->asked_bytes)
                                                    : std::nullopt;
}

std::optional<cuda::AddressRange> Segments::tensor_at_once(std::uint64_t address) {
  if (!mutex_.try_lock()) {
    return std::nullopt;
  }
  const MutexLock lock(mutex_, std::adopt_lock);
  look_at_written();
  const TensorPlace* const place = tensors_.living_at(address);
  return place == nullptr
             ? std::nullopt
             : std::optional(cuda::AddressRange{.start = address, .bytes = place->bytes});
}

std::optional<cuda::AddressRange> Segments::tensor_at(std::uint64_t address) const {
  const MutexLock lock(mutex_);
  const auto behind = in_order_.upper_bound(address);
  if (behind == in_order_.begin()) {
    return std::nullopt;
  }
  const auto& [start, bytes] = *std::prev(behind);
  return address - start < bytes ? std::optional(cuda::AddressRange{.start = start, .bytes = bytes})
                                 : std::nullopt;
}

Bytes Segments::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace spillway
