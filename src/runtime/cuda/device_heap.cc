// See device_heap.h.
#include "runtime/cuda/device_heap.h"

#include <algorithm>
#include <utility>

#include "platform/common/gpu_sizes.h"

namespace spillway {

Bytes DeviceHeap::size_of(Bytes bytes) { return heap_size_of(bytes, kBlockBytes); }

DeviceHeap::ByKept::iterator DeviceHeap::kept_for(Bytes size, Bytes most, Order order) {
  const auto found = kept_.lower_bound({order, size, 0});
  const bool fits = found != kept_.end() && std::get<0>(found->first) == order &&
                    std::get<1>(found->first) <= most;
  return fits ? found : kept_.end();
}

DeviceHeap::ByKept::iterator DeviceHeap::larger_kept_for(Bytes size, Order order) {
  constexpr Bytes kTimes = 2;
  constexpr Bytes kMorePart = 8;
  const Bytes most_more_bytes = platform_.capacity_bytes(Tier::kDevice) / kMorePart;
  if (grows() || more_bytes_ >= most_more_bytes) {
    return kept_.end();
  }
  const Bytes spare = std::min(spare_bytes(size), most_more_bytes - more_bytes_);
  if (spare == 0) {
    return kept_.end();
  }
  const Bytes most = size < kBlockBytes ? kBlockBytes - 1 : kTimes * size;
  return kept_for(size, std::min(most, size + spare), order);
}

// What a program allocates while it still grows stays with it (an optimizer's state), and so would
// what is more than it asked for; by then it is not known either how much room there is.
bool DeviceHeap::grows() const { return allocations_ < 2 * allocations_at_most_; }

// Where all fits, or it is not known yet what comes and goes, nobody is given more than it asks
// for: an optimizer's states come last in a first step, whose backward pass may allocate several
// times as often as all did before the most was in use. After that a new high is no reason to give
// everything another place.
Bytes DeviceHeap::better_size(Bytes asked, Order order) {
  constexpr std::uint64_t kTimes = 4;
  if (!shares_ && allocations_ >= kTimes * allocations_at_most_) {
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
  if (used_bytes_ + more_bytes_ + kept_bytes_ + size <= most_bytes || in_use_bytes > most_bytes ||
      size > budget_bytes / kLargePart) {
    return 0;
  }
  return most_bytes - in_use_bytes;
}

void DeviceHeap::keep(const Kept& kept) {
  ByKept::iterator added;
  if (spare_kept_.empty()) {
    added = kept_.emplace(kept, Place{}).first;
    spare_ages_.emplace_back();
  } else {
    ByKept::node_type node = std::move(spare_kept_.back());
    spare_kept_.pop_back();
    node.key() = kept;
    added = kept_.insert(std::move(node)).position;
  }
  by_age_.splice(by_age_.end(), spare_ages_, spare_ages_.begin());
  by_age_.back() = added;
  added->second.at = std::prev(by_age_.end());
  kept_bytes_ += std::get<1>(kept);
}

void DeviceHeap::forget_kept(ByKept::iterator kept) {
  kept_bytes_ -= std::get<1>(kept->first);
  spare_ages_.splice(spare_ages_.begin(), by_age_, kept->second.at);
  spare_kept_.push_back(kept_.extract(kept));
}

void DeviceHeap::give_up(ByKept::iterator kept) {
  platform_.free(std::get<2>(kept->first));
  forget_kept(kept);
}

void DeviceHeap::give_up_oldest() { give_up(by_age_.front()); }

// Dead addresses make room for new ones where there are none left.
Result<std::uint64_t> DeviceHeap::make(Bytes size) {
  // Where that does not end, everything being used too tightly, the platform does better.
  constexpr Bytes kGivenUpTimes = 2;
  while (!by_age_.empty() && spare_bytes(size) > 0 &&
         given_up_for_room_bytes_ < kGivenUpTimes * platform_.capacity_bytes(Tier::kDevice)) {
    given_up_for_room_bytes_ += std::get<1>(by_age_.front()->first);
    give_up_oldest();
  }
  while (true) {
    Result<std::uint64_t> made = platform_.allocate(size);
    if (made || by_age_.empty()) {
      return made;
    }
    give_up_oldest();
  }
}

Result<std::uint64_t> DeviceHeap::allocate(Bytes bytes, std::optional<Order> order) {
  // What could not be rounded up is more than any tier has.
  const Bytes asked = bytes > (Bytes{1} << 60U) ? bytes : size_of(bytes);
  const std::scoped_lock lock(mutex_);
  Bytes size = asked;
  auto kept = kept_.end();
  if (order) {
    size = better_size(asked, *order);
    kept = kept_for(size, size, *order);
    if (kept == kept_.end() && size > asked) {
      kept = kept_for(asked, asked, *order);
    }
    if (kept == kept_.end()) {
      kept = larger_kept_for(size, *order);
    }
  }
  std::uint64_t address = 0;
  if (kept != kept_.end()) {
    size = std::get<1>(kept->first);
    address = std::get<2>(kept->first);
    if (const Status reused = platform_.reuse(address); !reused) {
      return tl::unexpected<Error>(reused.error());
    }
    forget_kept(kept);
  } else {
    Result<std::uint64_t> made = size > asked ? platform_.allocate(size) : make(size);
    if (!made && size > asked) {
      size = asked;
      made = make(size);
    }
    if (!made) {
      return made;
    }
    address = *made;
  }
  used_[address] = {.bytes = bytes, .size = size, .order = order};
  used_bytes_ += asked;
  more_bytes_ += size - asked;
  if (order) {
    near_[*order].born(asked);
  }
  ++allocations_;
  note_highs();
  return address;
}

bool DeviceHeap::free(std::uint64_t address, std::optional<Order> order) {
  const std::scoped_lock lock(mutex_);
  const auto found = used_.find(address);
  if (found == used_.end()) {
    return false;
  }
  const Bytes size = found->second.size;
  const bool handed_on = order && found->second.order == order;
  const Bytes asked = size_of(found->second.bytes);
  if (const std::optional<Order> of = found->second.order) {
    near_[*of].died(asked);
  }
  used_.erase(found);
  used_bytes_ -= asked;
  more_bytes_ -= size - asked;
  if (!handed_on) {
    platform_.free(address);
    return true;
  }
  platform_.retire(address, *order);
  keep({*order, size, address});
  // A program that never asks for the same size twice must not gather dead addresses. Several
  // times what is in use at once is more than one that repeats itself leaves behind in one round.
  constexpr Bytes kKeptTimes = 4;
  while (kept_bytes_ > kKeptTimes * most_used_bytes_) {
    give_up_oldest();
  }
  note_highs();
  return true;
}

void DeviceHeap::forget(Order order) {
  const std::scoped_lock lock(mutex_);
  auto kept = kept_.lower_bound({order, 0, 0});
  while (kept != kept_.end() && std::get<0>(kept->first) == order) {
    give_up(kept++);
  }
  near_.erase(order);
  // Another stream may be given the same handle.
  for (auto& entry : used_) {
    Used& used = entry.second;
    if (used.order == order) {
      used.order.reset();
    }
  }
}

std::optional<Bytes> DeviceHeap::find_bytes(std::uint64_t address) const {
  const auto found = used_.find(address);
  return found == used_.end() ? std::nullopt : std::optional(found->second.bytes);
}

std::optional<Bytes> DeviceHeap::bytes_of(std::uint64_t address) const {
  const std::scoped_lock lock(mutex_);
  return find_bytes(address);
}

std::optional<Bytes> DeviceHeap::bytes_of_at_once(std::uint64_t address) const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() ? find_bytes(address) : std::nullopt;
}

void DeviceHeap::for_each(const std::function<void(std::uint64_t, Bytes)>& visit) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& [address, used] : used_) {
    visit(address, used.bytes);
  }
}

void DeviceHeap::trim_to(Bytes bytes) {
  const std::scoped_lock lock(mutex_);
  while (!by_age_.empty() && used_bytes_ + more_bytes_ + kept_bytes_ > bytes) {
    give_up_oldest();
  }
}

Bytes DeviceHeap::reserved_bytes() const {
  return std::max(used_bytes_, std::min(used_bytes_ + more_bytes_ + kept_bytes_, budget_bytes_));
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
