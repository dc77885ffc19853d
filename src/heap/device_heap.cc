// See device_heap.h.
#include "heap/device_heap.h"

#include <algorithm>
#include <utility>

#include "platform/common/gpu_sizes.h"

namespace spillway {

Bytes DeviceHeap::size_of(Bytes bytes) { return heap_size_of(bytes, kBlockBytes); }

TrimPolicy::Has DeviceHeap::has() const {
  return {.used_bytes = used_bytes_,
          .more_bytes = more_bytes_,
          .free_bytes = kept_.bytes() + stream_cache_.bytes()};
}

void DeviceHeap::free_slot(Slot slot) {
  platform_.memory().free(pieces_[slot].address);
  forget_slot(slot);
}

void DeviceHeap::forget_slot(Slot slot) {
  pools_.leaves(pieces_[slot].pool, pieces_[slot].size);
  pieces_.remove(slot);
}

void DeviceHeap::give_up(Slot slot) {
  missing_.gave_up(pieces_[slot].size);
  kept_.remove(slot);
  free_slot(slot);
}

void DeviceHeap::before_making(Bytes size) {
  const Bytes budget = budget_bytes();
  keep_.before_making(has().all_bytes() + std::min(size, budget), room_.fits(size, has(), budget));
}

// Dead addresses make room for new ones where there are more than enough, and where there is no
// room left.
Result<std::uint64_t> DeviceHeap::make(Bytes size) {
  while (!kept_.empty() && room_.is_too_much(size, has(), budget_bytes())) {
    room_.gave_up(pieces_[kept_.oldest()].size);
    give_up(kept_.oldest());
  }
  before_making(size);
  while (true) {
    Result<std::uint64_t> made = platform_.memory().allocate(size);
    if (made || kept_.empty()) {
      return made;
    }
    give_up(kept_.oldest());
  }
}

// Whether nobody need be told of what is freed and handed on. All that the heap has lives then as
// far as the platform knows.
bool DeviceHeap::unannounced() const {
  return !always_tells_ && platform_.memory().recycles_unannounced(has().all_bytes());
}

// It dies later than it was freed, behind more launches than may have used it.
void DeviceHeap::tell_what_is_cached() {
  if (stream_cache_.empty()) {
    return;
  }
  for (const StreamCache::Taken& taken : stream_cache_.take_all()) {
    no_longer_counts(pieces_[taken.slot]);
    no_longer_has_more(pieces_[taken.slot]);
    keep(taken.slot, taken.stream);
  }
  give_up_what_is_too_much();
}

void DeviceHeap::keep(Slot slot, Stream stream) {
  const HeapPiece& memory = pieces_[slot];
  platform_.memory().retire(memory.address, stream);
  kept_.keep(stream, memory.size, memory.address, slot);
}

// What was kept. What is dead and at hand counts for the platform, which may have no room for more.
Status DeviceHeap::reuse(Slot slot, Stream stream) {
  kept_.remove(slot);
  Status reused = platform_.memory().reuse(pieces_[slot].address);
  if (!reused && !stream_cache_.empty()) {
    tell_what_is_cached();
    reused = platform_.memory().reuse(pieces_[slot].address);
  }
  if (!reused) {
    kept_.keep(stream, pieces_[slot].size, pieces_[slot].address, slot);
  }
  return reused;
}

// It is, or will be, kept for its own size again.
void DeviceHeap::no_longer_has_more(const HeapPiece& memory) {
  const Bytes asked = size_of(memory.bytes);
  if (memory.size > asked) {
    more_bytes_ -= memory.size - asked;
    missing_.returned(memory.size, asked);
  }
}

void DeviceHeap::no_longer_counts(HeapPiece& memory) {
  if (memory.stream && std::exchange(memory.counted, false)) {
    sizes_.died(*memory.stream, size_of(memory.bytes));
  }
}

// A program that never asks for the same size twice must not gather dead addresses. Several times
// what is in use at once is more than one that repeats itself leaves behind in one round.
void DeviceHeap::give_up_what_is_too_much() {
  constexpr Bytes kKeptTimes = 4;
  while (kept_.bytes() > kKeptTimes * room_.most_used_bytes()) {
    give_up(kept_.oldest());
  }
}

void DeviceHeap::is_of_pool(HeapPiece& memory, Pool pool) {
  const Pool before = std::exchange(memory.pool, pool);
  if (before != pool) {
    pools_.leaves(before, memory.size);
    pools_.comes_to(pool, memory.size);
  }
}

std::uint64_t DeviceHeap::hand_out(Slot slot, Bytes bytes, Bytes asked, Pool pool) {
  HeapPiece& memory = pieces_[slot];
  memory.bytes = bytes;
  memory.serial = ++last_serial_;
  memory.used = true;
  used_bytes_ += asked;
  is_of_pool(memory, pool);
  pools_.uses(pool, bytes);
  room_.allocated(used_bytes_);
  return memory.address;
}

Result<std::uint64_t> DeviceHeap::allocate(Bytes bytes, std::optional<Stream> stream, Pool pool) {
  // What could not be rounded up is more than any tier has.
  const Bytes asked = bytes > (Bytes{1} << 60U) ? bytes : size_of(bytes);
  const MutexLock lock(mutex_);
  if (!pools_.may_have(pool, bytes)) {
    return make_error(ErrorCode::kInvalidInput, "{} are more than the memory pool may have",
                      format_bytes(bytes));
  }
  if (platform_.bypass().calls_are_open()) {
    room_.is_at_rest();
  }
  const bool is_unannounced = unannounced();
  if (!is_unannounced) {
    tell_what_is_cached();
  } else if (const std::optional<Slot> slot =
                 stream ? stream_cache_.take(*stream, asked) : std::nullopt) {
    return hand_out(*slot, bytes, asked, pool);
  }
  Choice choice{.size = asked};
  if (stream) {
    choice = choose(asked, *stream);
  } else {
    tell_what_is_cached();
  }
  const Result<Slot> taken = stream && choice.kept ? use_again(*choice.kept, asked, *stream)
                                                   : make_new(asked, choice.size, stream, pool);
  if (!taken) {
    return tl::unexpected<Error>(taken.error());
  }
  HeapPiece& memory = pieces_[*taken];
  memory.stream = stream;
  more_bytes_ += memory.size - asked;
  // Beside what is at hand and counts as in use, it would seem that more was than ever is. Nor does
  // it matter how sizes live together where all fits with room.
  if (stream && !is_unannounced) {
    sizes_.born(*stream, asked);
    memory.counted = true;
  }
  return hand_out(*taken, bytes, asked, pool);
}

// The block that is kept and serves best, if there is one; and of what size a new one should be.
DeviceHeap::Choice DeviceHeap::choose(Bytes asked, Stream stream) {
  Choice choice{.size = sizes_.better(stream, asked, room_, budget_bytes())};
  choice.kept = kept_.find(stream, choice.size, choice.size);
  if (!choice.kept && choice.size > asked) {
    choice.kept = kept_.find(stream, asked, asked);
  }
  if (!choice.kept) {
    tell_what_is_cached();
    // What was at hand for who asks for less has its own size again.
    choice.kept = kept_.find(stream, choice.size, choice.size);
  }
  if (!choice.kept) {
    // A larger one, but not where there are more of this size than ever: what stays would have more
    // for good.
    const Bytes largest = room_.largest_for(choice.size, has(), budget_bytes());
    if (largest != choice.size && missing_.has(asked)) {
      choice.kept = kept_.find(stream, choice.size, largest);
    }
  }
  return choice;
}

Result<DeviceHeap::Slot> DeviceHeap::use_again(const FreeBlockIndex::Found& kept, Bytes asked,
                                               Stream stream) {
  if (const Status reused = reuse(kept.slot, stream); !reused) {
    return tl::unexpected<Error>(reused.error());
  }
  if (kept.size > asked) {
    missing_.lent(kept.size, asked);
  }
  pieces_[kept.slot].size = kept.size;
  return kept.slot;
}

// A block of this size, or of what was asked for if there is no room for more.
Result<DeviceHeap::Slot> DeviceHeap::make_new(Bytes asked, Bytes size, std::optional<Stream> stream,
                                              Pool pool) {
  if (size > asked) {
    before_making(size);
  }
  Result<std::uint64_t> made = size > asked ? platform_.memory().allocate(size) : make(size);
  if (!made && size > asked) {
    size = asked;
    made = make(size);
  }
  if (!made) {
    return tl::unexpected<Error>(made.error());
  }
  const Slot slot = pieces_.add(*made);
  pieces_[slot].size = size;
  newest_.reset();
  if (asked > kLargestBlockBytes) {
    newest_ = {.slot = slot,
               .stream = stream,
               .usage = pools_.usage(pool),
               .room = room_,
               .near = stream ? sizes_.of(*stream) : NearSizes{},
               .missing_bytes = missing_.has(asked) ? asked : 0};
  }
  missing_.made(asked);
  pools_.comes_to(kNoPool, size);
  return slot;
}

// Whether it was only to see how much there is, as `cudnn.benchmark` does all the time: that says
// nothing of what the program needs. Nothing has been born since. Who did not take all expects it
// among what was in use at the highest.
bool DeviceHeap::undo(Slot slot) {
  if (!newest_ || newest_->slot != slot || room_.allocations() != newest_->room.allocations() + 1 ||
      !platform_.memory().undo_allocate(pieces_[slot].address)) {
    return false;
  }
  const HeapPiece& memory = pieces_[slot];
  used_bytes_ -= size_of(memory.bytes);
  more_bytes_ -= memory.size - size_of(memory.bytes);
  pools_.gives_back(memory.pool, memory.bytes);
  constexpr Bytes kNearlyPart = 16;
  const Bytes free_bytes = budget_bytes() - std::min(budget_bytes(), used_bytes_);
  if (free_bytes > 0 && memory.size >= free_bytes - free_bytes / kNearlyPart) {
    pools_.restore_highs(memory.pool, newest_->usage);
  }
  room_ = newest_->room;
  if (newest_->stream) {
    sizes_.restore(*newest_->stream, std::move(newest_->near));
  }
  if (newest_->missing_bytes > 0) {
    missing_.gave_up(newest_->missing_bytes);
  }
  newest_.reset();
  forget_slot(slot);
  return true;
}

bool DeviceHeap::free(std::uint64_t address, std::optional<Stream> stream) {
  const MutexLock lock(mutex_);
  const std::optional<Slot> slot = pieces_.used_at(address);
  if (!slot) {
    return false;
  }
  if (undo(*slot)) {
    return true;
  }
  newest_.reset();  // what was known before it knows nothing of this
  HeapPiece& memory = pieces_[*slot];
  const bool handed_on = stream && memory.stream == stream;
  const Bytes asked = size_of(memory.bytes);
  if (!handed_on || !unannounced()) {
    tell_what_is_cached();
  } else if (stream_cache_.put(*stream, asked, *slot)) {
    memory.used = false;
    used_bytes_ -= asked;
    pools_.gives_back(memory.pool, memory.bytes);
    return true;  // what it has more is still counted as such
  }
  no_longer_counts(memory);
  no_longer_has_more(memory);
  memory.used = false;
  used_bytes_ -= asked;
  pools_.gives_back(memory.pool, memory.bytes);
  if (!handed_on) {
    missing_.gave_up(memory.size);
    free_slot(*slot);
    return true;
  }
  keep(*slot, *stream);
  give_up_what_is_too_much();
  return true;
}

void DeviceHeap::always_tell() {
  const MutexLock lock(mutex_);
  always_tells_ = true;
}

void DeviceHeap::forget(Stream stream) {
  const MutexLock lock(mutex_);
  newest_.reset();
  tell_what_is_cached();
  for (const Slot slot : kept_.forget(stream)) {
    free_slot(slot);
  }
  sizes_.forget(stream);
  // Another stream may be given the same handle.
  for (HeapPiece& memory : pieces_) {
    if (memory.stream == stream) {
      memory.stream.reset();
      memory.counted = false;
    }
  }
}

std::optional<Bytes> DeviceHeap::bytes_of(std::uint64_t address) const {
  const MutexLock lock(mutex_);
  return pieces_.used_bytes_at(address);
}

bool DeviceHeap::is_on_no_stream(std::uint64_t address) const {
  const MutexLock lock(mutex_);
  const std::optional<Slot> slot = pieces_.used_at(address);
  return slot && !pieces_[*slot].stream;
}

std::optional<Bytes> DeviceHeap::bytes_of_at_once(std::uint64_t address) const {
  if (!mutex_.try_lock()) {
    return std::nullopt;
  }
  const MutexLock lock(mutex_, std::adopt_lock);
  return pieces_.used_bytes_at(address);
}

std::optional<DeviceHeap::Description> DeviceHeap::describe(std::uint64_t address) const {
  const MutexLock lock(mutex_);
  const std::optional<Slot> slot = pieces_.used_at(address);
  return slot ? std::optional(Description{.bytes = pieces_[*slot].bytes,
                                          .serial = pieces_[*slot].serial,
                                          .pool = pieces_[*slot].pool})
              : std::nullopt;
}

bool DeviceHeap::may_end_at(std::uint64_t address, Bytes bytes) const {
  if (!mutex_.try_lock()) {
    return true;
  }
  const MutexLock lock(mutex_, std::adopt_lock);
  return pieces_.used_bytes_at(address) == bytes;
}

void DeviceHeap::for_each(const std::function<void(std::uint64_t, Bytes)>& visit) const {
  const MutexLock lock(mutex_);
  for (const HeapPiece& memory : pieces_) {
    if (memory.used) {
      visit(memory.address, memory.bytes);
    }
  }
}

void DeviceHeap::trim_to(Bytes bytes) {
  const MutexLock lock(mutex_);
  tell_what_is_cached();  // what is at hand is kept from then on
  keep_.trims(has().all_bytes());
  while (!kept_.empty() && has().all_bytes() > bytes) {
    give_up(kept_.oldest());
  }
  keep_.at_most(std::max(bytes, has().all_bytes()));
}

void DeviceHeap::trim_to(Pool pool, Bytes bytes) {
  const MutexLock lock(mutex_);
  tell_what_is_cached();  // what is at hand is kept from then on
  keep_.trims(has().all_bytes());
  if (pools_.bytes_of(pool) > bytes) {
    for (const Slot slot : kept_.oldest_first()) {
      if (pools_.bytes_of(pool) > bytes && pieces_[slot].pool == pool) {
        give_up(slot);
      }
    }
  }
  const Bytes others_bytes = has().all_bytes() - pools_.bytes_of(pool);
  keep_.at_most(
      std::max(has().all_bytes(), bytes > ~others_bytes ? ~Bytes{0} : others_bytes + bytes));
}

DeviceHeap::Pool DeviceHeap::open_pool(Bytes most_bytes) {
  const MutexLock lock(mutex_);
  return pools_.open(most_bytes);
}

void DeviceHeap::close_pool(Pool pool) {
  trim_to(pool, 0);
  const MutexLock lock(mutex_);
  newest_.reset();
  for (HeapPiece& memory : pieces_) {
    if (memory.pool == pool) {
      if (memory.used) {
        pools_.uses(kNoPool, memory.bytes);
      }
      is_of_pool(memory, kNoPool);
    }
  }
  pools_.close(pool);
}

DeviceHeap::Usage DeviceHeap::usage(Pool pool) const {
  const MutexLock lock(mutex_);
  return pools_.usage(pool);
}

Bytes DeviceHeap::used_bytes() const {
  const MutexLock lock(mutex_);
  return used_bytes_;
}

void DeviceHeap::reset_used_high(Pool pool) {
  const MutexLock lock(mutex_);
  newest_.reset();
  pools_.reset_used_high(pool);
}

void DeviceHeap::reset_reserved_high(Pool pool) {
  const MutexLock lock(mutex_);
  newest_.reset();
  pools_.reset_reserved_high(pool);
}

}  // namespace spillway
