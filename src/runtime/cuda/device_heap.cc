// See device_heap.h.
#include "runtime/cuda/device_heap.h"

#include <algorithm>

namespace spillway {

// Small ones share frames and lie at multiples of 512, as the driver's do; a larger one has whole
// frames anyway.
Bytes DeviceHeap::size_of(Bytes bytes) {
  constexpr Bytes kSmallStep = 512;
  const Bytes small = round_up(std::max<Bytes>(bytes, 1), kSmallStep);
  return small < kBlockBytes ? small : round_up(bytes, kBlockBytes);
}

std::optional<std::uint64_t> DeviceHeap::take_kept(Bytes size, Order order) {
  const auto found = kept_.lower_bound({order, size, 0});
  if (found == kept_.end() || std::get<0>(found->first) != order ||
      std::get<1>(found->first) != size) {
    return std::nullopt;
  }
  const std::uint64_t address = std::get<2>(found->first);
  by_age_.erase(found->second);
  kept_.erase(found);
  kept_bytes_ -= size;
  return address;
}

void DeviceHeap::keep(const Kept& kept) {
  kept_.emplace(kept, frees_);
  by_age_.emplace(frees_++, kept);
  kept_bytes_ += std::get<1>(kept);
}

void DeviceHeap::give_up(std::map<Kept, std::uint64_t>::iterator kept) {
  platform_.free(std::get<2>(kept->first));
  kept_bytes_ -= std::get<1>(kept->first);
  by_age_.erase(kept->second);
  kept_.erase(kept);
}

void DeviceHeap::give_up_oldest() { give_up(kept_.find(by_age_.begin()->second)); }

// Dead addresses make room for new ones where there are none left.
Result<std::uint64_t> DeviceHeap::make(Bytes size) {
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
  const Bytes size = bytes > (Bytes{1} << 60U) ? bytes : size_of(bytes);
  const std::scoped_lock lock(mutex_);
  std::optional<std::uint64_t> address;
  if (order) {
    address = take_kept(size, *order);
    if (address) {
      if (const Status reused = platform_.reuse(*address); !reused) {
        keep({*order, size, *address});
        return tl::unexpected<Error>(reused.error());
      }
    }
  }
  if (!address) {
    Result<std::uint64_t> made = make(size);
    if (!made) {
      return made;
    }
    address = *made;
  }
  used_[*address] = {.bytes = bytes, .order = order};
  used_bytes_ += size;
  note_highs();
  return *address;
}

bool DeviceHeap::free(std::uint64_t address, std::optional<Order> order) {
  const std::scoped_lock lock(mutex_);
  const auto found = used_.find(address);
  if (found == used_.end()) {
    return false;
  }
  const Bytes size = size_of(found->second.bytes);
  const bool handed_on = order && found->second.order == order;
  used_.erase(found);
  used_bytes_ -= size;
  if (!handed_on) {
    platform_.free(address);
    return true;
  }
  platform_.retire(address);
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
  // Another stream may be given the same handle.
  for (auto& entry : used_) {
    Used& used = entry.second;
    if (used.order == order) {
      used.order.reset();
    }
  }
}

std::optional<Bytes> DeviceHeap::bytes_of(std::uint64_t address) const {
  const std::scoped_lock lock(mutex_);
  const auto found = used_.find(address);
  return found == used_.end() ? std::nullopt : std::optional(found->second.bytes);
}

void DeviceHeap::for_each(const std::function<void(std::uint64_t, Bytes)>& visit) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& [address, used] : used_) {
    visit(address, used.bytes);
  }
}

void DeviceHeap::trim_to(Bytes bytes) {
  const std::scoped_lock lock(mutex_);
  while (!by_age_.empty() && used_bytes_ + kept_bytes_ > bytes) {
    give_up_oldest();
  }
}

Bytes DeviceHeap::reserved_bytes() const {
  return std::max(used_bytes_, std::min(used_bytes_ + kept_bytes_, budget_bytes_));
}

void DeviceHeap::note_highs() {
  most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
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
