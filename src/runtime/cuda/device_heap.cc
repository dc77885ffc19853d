// See device_heap.h.
#include "runtime/cuda/device_heap.h"

#include <algorithm>
#include <utility>

#include "base/spread.h"
#include "platform/common/gpu_sizes.h"

namespace spillway {

Bytes DeviceHeap::size_of(Bytes bytes) { return heap_size_of(bytes, kBlockBytes); }

std::optional<KeptAddresses::Found> DeviceHeap::larger_kept_for(Bytes size, Bytes asked,
                                                                Order order) {
  constexpr Bytes kTimes = 2;
  constexpr Bytes kMorePart = 8;
  const Bytes most_more_bytes = platform_.capacity_bytes(Tier::kDevice) / kMorePart;
  if (grows() || more_bytes_ >= most_more_bytes) {
    return std::nullopt;
  }
  const Bytes spare = std::min(spare_bytes(size), most_more_bytes - more_bytes_);
  if (spare == 0) {
    return std::nullopt;
  }
  // Nor yet where there are more of this size than ever: an optimizer's states come when all in all
  // the program seems to grow no more.
  if (asked >= kBlockBytes && may_grow() && !near_[order].was_there_before(asked)) {
    return std::nullopt;
  }
  const Bytes most = size < kBlockBytes ? kBlockBytes - 1 : kTimes * size;
  return kept_.find(order, size, std::min(most, size + spare));
}

// What a program allocates while it still grows stays with it, and so would what is more than it
// asked for; by then it is not known either how much room there is.
bool DeviceHeap::grows() const { return allocations_ < 2 * allocations_at_most_; }

// An optimizer's states come last in a first step, whose backward pass may allocate several times
// as often as all did before the most was in use.
bool DeviceHeap::may_grow() const { return allocations_ < 4 * allocations_at_most_; }

// Where all fits, or it is not known yet what comes and goes, nobody is given more than it asks
// for. After that a new high is no reason to give everything another place.
Bytes DeviceHeap::better_size(Bytes asked, Order order) {
  if (!shares_ && !may_grow()) {
    shares_ = most_used_bytes_ > platform_.capacity_bytes(Tier::kDevice);
  }
  return shares_ ? near_[order].better(asked) : asked;
}

// How much more than they ask for allocations may have, where one of this size has no room beside
// what is kept, but what is in use has much. 0: there is room; or there is pressure, under which
// memory that is larger than what is asked for would only have to move more often; or it is so
// large that frames had better go from what is dead to what is new, which the platform does.
Bytes DeviceHeap::spare_bytes(Bytes size) const {
  constexpr Bytes kSharedPart = 128;  // small ones share frames, which are not full
  constexpr Bytes kLargePart = 4;
  const Bytes budget_bytes = platform_.capacity_bytes(Tier::kDevice);
  const Bytes most_bytes = budget_bytes - budget_bytes / kSharedPart;
  const Bytes in_use_bytes = std::max(most_used_bytes_, used_bytes_ + size) + more_bytes_;
  if (used_bytes_ + more_bytes_ + kept_.bytes() + size <= most_bytes || in_use_bytes > most_bytes ||
      size > budget_bytes / kLargePart) {
    return 0;
  }
  return most_bytes - in_use_bytes;
}

std::optional<DeviceHeap::Slot> DeviceHeap::slot_of(std::uint64_t address) const {
  Slot& hint = hints_[spread(address, kHintBits)];
  if (hint < memory_.size() && memory_[hint].address == address) {
    return hint;
  }
  const auto found = slots_.find(address);
  if (found == slots_.end()) {
    return std::nullopt;
  }
  return hint = found->second;
}

std::optional<DeviceHeap::Slot> DeviceHeap::used_at(std::uint64_t address) const {
  const std::optional<Slot> slot = slot_of(address);
  return slot && memory_[*slot].used ? slot : std::nullopt;
}

DeviceHeap::Slot DeviceHeap::new_slot(std::uint64_t address) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<Slot>(memory_.size()));
    memory_.emplace_back();
  }
  const Slot slot = free_slots_.back();
  free_slots_.pop_back();
  memory_[slot].address = address;
  slots_.emplace(address, slot);
  return slot;
}

void DeviceHeap::free_slot(Slot slot) {
  platform_.free(memory_[slot].address);
  slots_.erase(memory_[slot].address);
  memory_[slot] = {};
  free_slots_.push_back(slot);
}

void DeviceHeap::give_up_oldest() {
  const Slot oldest = kept_.oldest();
  kept_.remove(oldest);
  free_slot(oldest);
}

// Dead addresses make room for new ones where there are none left.
Result<std::uint64_t> DeviceHeap::make(Bytes size) {
  // Where that does not end, everything being used too tightly, the platform does better.
  constexpr Bytes kGivenUpTimes = 2;
  while (!kept_.empty() && spare_bytes(size) > 0 &&
         given_up_for_room_bytes_ < kGivenUpTimes * platform_.capacity_bytes(Tier::kDevice)) {
    given_up_for_room_bytes_ += memory_[kept_.oldest()].size;
    give_up_oldest();
  }
  while (true) {
    Result<std::uint64_t> made = platform_.allocate(size);
    if (made || kept_.empty()) {
      return made;
    }
    give_up_oldest();
  }
}

// Whether nobody need be told of what is freed and handed on. All that the heap has lives then as
// far as the platform knows.
bool DeviceHeap::untold() const { return !always_tells_ && platform_.hands_on_untold(all_bytes()); }

// It dies later than it was freed, behind more launches than may have used it.
void DeviceHeap::tell_what_is_at_hand() {
  if (at_hand_.empty()) {
    return;
  }
  for (const AtHand::Taken& taken : at_hand_.take_all()) {
    no_longer_counts(memory_[taken.slot]);
    keep(taken.slot, taken.order);
  }
  give_up_what_is_too_much();
}

void DeviceHeap::keep(Slot slot, Order order) {
  const Memory& memory = memory_[slot];
  platform_.retire(memory.address, order);
  kept_.keep(order, memory.size, memory.address, slot);
}

// What was kept. What is dead and at hand counts for the platform, which may have no room for more.
Status DeviceHeap::reuse(Slot slot, Order order) {
  kept_.remove(slot);
  Status reused = platform_.reuse(memory_[slot].address);
  if (!reused && !at_hand_.empty()) {
    tell_what_is_at_hand();
    reused = platform_.reuse(memory_[slot].address);
  }
  if (!reused) {
    kept_.keep(order, memory_[slot].size, memory_[slot].address, slot);
  }
  return reused;
}

void DeviceHeap::no_longer_counts(Memory& memory) {
  if (memory.order && std::exchange(memory.counted, false)) {
    near_[*memory.order].died(size_of(memory.bytes));
  }
}

// A program that never asks for the same size twice must not gather dead addresses. Several times
// what is in use at once is more than one that repeats itself leaves behind in one round.
void DeviceHeap::give_up_what_is_too_much() {
  constexpr Bytes kKeptTimes = 4;
  while (kept_.bytes() > kKeptTimes * most_used_bytes_) {
    give_up_oldest();
  }
}

std::uint64_t DeviceHeap::hand_out(Slot slot, Bytes bytes, Bytes asked) {
  Memory& memory = memory_[slot];
  memory.bytes = bytes;
  memory.used = true;
  used_bytes_ += asked;
  ++allocations_;
  note_highs();
  return memory.address;
}

Result<std::uint64_t> DeviceHeap::allocate(Bytes bytes, std::optional<Order> order) {
  // What could not be rounded up is more than any tier has.
  const Bytes asked = bytes > (Bytes{1} << 60U) ? bytes : size_of(bytes);
  const std::scoped_lock lock(mutex_);
  const bool is_untold = untold();
  if (!is_untold) {
    tell_what_is_at_hand();
  } else if (const std::optional<Slot> slot = order ? at_hand_.take(*order, asked) : std::nullopt) {
    return hand_out(*slot, bytes, asked);
  }
  Bytes size = asked;
  std::optional<KeptAddresses::Found> kept;
  if (order) {
    size = better_size(asked, *order);
    kept = kept_.find(*order, size, size);
    if (!kept && size > asked) {
      kept = kept_.find(*order, asked, asked);
    }
  }
  if (!kept) {
    tell_what_is_at_hand();
    kept = order ? larger_kept_for(size, asked, *order) : std::nullopt;
  }
  Slot slot = 0;
  if (kept && order) {
    size = kept->size;
    slot = kept->slot;
    if (const Status reused = reuse(slot, *order); !reused) {
      return tl::unexpected<Error>(reused.error());
    }
  } else {
    Result<std::uint64_t> made = size > asked ? platform_.allocate(size) : make(size);
    if (!made && size > asked) {
      size = asked;
      made = make(size);
    }
    if (!made) {
      return made;
    }
    slot = new_slot(*made);
  }
  memory_[slot].size = size;
  memory_[slot].order = order;
  more_bytes_ += size - asked;
  // Beside what is at hand and counts as in use, it would seem that more was than ever is. Nor does
  // it matter how sizes live together where all fits with room.
  if (order && !is_untold) {
    near_[*order].born(asked);
    memory_[slot].counted = true;
  }
  return hand_out(slot, bytes, asked);
}

bool DeviceHeap::free(std::uint64_t address, std::optional<Order> order) {
  const std::scoped_lock lock(mutex_);
  const std::optional<Slot> slot = used_at(address);
  if (!slot) {
    return false;
  }
  Memory& memory = memory_[*slot];
  const Bytes size = memory.size;
  const bool handed_on = order && memory.order == order;
  const Bytes asked = size_of(memory.bytes);
  if (!handed_on || !untold()) {
    tell_what_is_at_hand();
  } else if (size == asked && at_hand_.put(*order, size, *slot)) {
    memory.used = false;
    used_bytes_ -= asked;
    return true;
  }
  no_longer_counts(memory);
  memory.used = false;
  used_bytes_ -= asked;
  more_bytes_ -= size - asked;
  if (!handed_on) {
    free_slot(*slot);
    return true;
  }
  keep(*slot, *order);
  give_up_what_is_too_much();
  note_highs();
  return true;
}

void DeviceHeap::always_tell() {
  const std::scoped_lock lock(mutex_);
  always_tells_ = true;
}

void DeviceHeap::forget(Order order) {
  const std::scoped_lock lock(mutex_);
  tell_what_is_at_hand();
  for (const Slot slot : kept_.forget(order)) {
    free_slot(slot);
  }
  near_.erase(order);
  // Another stream may be given the same handle.
  for (Memory& memory : memory_) {
    if (memory.order == order) {
      memory.order.reset();
      memory.counted = false;
    }
  }
}

std::optional<Bytes> DeviceHeap::find_bytes(std::uint64_t address) const {
  const std::optional<Slot> slot = used_at(address);
  return slot ? std::optional(memory_[*slot].bytes) : std::nullopt;
}

std::optional<Bytes> DeviceHeap::bytes_of(std::uint64_t address) const {
  const std::scoped_lock lock(mutex_);
  return find_bytes(address);
}

bool DeviceHeap::was_freed(std::uint64_t address) const {
  const std::scoped_lock lock(mutex_);
  const std::optional<Slot> slot = slot_of(address);
  return slot && !memory_[*slot].used;
}

std::optional<Bytes> DeviceHeap::bytes_of_at_once(std::uint64_t address) const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() ? find_bytes(address) : std::nullopt;
}

void DeviceHeap::for_each(const std::function<void(std::uint64_t, Bytes)>& visit) const {
  const std::scoped_lock lock(mutex_);
  for (const Memory& memory : memory_) {
    if (memory.used) {
      visit(memory.address, memory.bytes);
    }
  }
}

void DeviceHeap::trim_to(Bytes bytes) {
  const std::scoped_lock lock(mutex_);
  tell_what_is_at_hand();
  while (!kept_.empty() && all_bytes() > bytes) {
    give_up_oldest();
  }
}

// In use, kept and at hand.
Bytes DeviceHeap::all_bytes() const {
  return used_bytes_ + more_bytes_ + kept_.bytes() + at_hand_.bytes();
}

Bytes DeviceHeap::reserved_bytes() const {
  return std::max(used_bytes_, std::min(all_bytes(), budget_bytes_));
}

void DeviceHeap::note_highs() {
  if (used_bytes_ > most_used_bytes_) {
    most_used_bytes_ = used_bytes_;
    allocations_at_most_ = allocations_;
  }
  used_high_bytes_ = std::max(used_high_bytes_, used_bytes_);
  reserved_high_bytes_ = std::max(reserved_high_bytes_, reserved_bytes());
}

DeviceHeap::Usage DeviceHeap::usage() const {
  const std::scoped_lock lock(mutex_);
  return {.used_bytes = used_bytes_,
          .used_high_bytes = used_high_bytes_,
          .reserved_bytes = reserved_bytes(),
          .reserved_high_bytes = reserved_high_bytes_};
}

void DeviceHeap::reset_used_high() {
  const std::scoped_lock lock(mutex_);
  used_high_bytes_ = used_bytes_;
}

void DeviceHeap::reset_reserved_high() {
  const std::scoped_lock lock(mutex_);
  reserved_high_bytes_ = reserved_bytes();
}

}  // namespace spillway
