// See address_ranges.h.
#include "platform/cuda/address_ranges.h"

namespace spillway::cuda {

std::optional<std::uint64_t> AddressRanges::take(Bytes bytes, Bytes alignment) {
  const std::uint64_t aligned = round_up(fresh_, alignment);
  if (aligned <= end_ && end_ - aligned >= bytes) {
    if (aligned > fresh_) {
      free_.give(fresh_, aligned - fresh_);
    }
    fresh_ = aligned + bytes;
    return aligned;
  }
  std::optional<std::uint64_t> found = take_freed(bytes, alignment);
  while (!found && !resting_.empty()) {
    // The older half goes, so that the younger one rests on.
    const Bytes keep_bytes = resting_bytes_ / 2;
    while (!resting_.empty() && resting_bytes_ > keep_bytes) {
      const Run oldest = resting_.front();
      resting_.pop_front();
      resting_bytes_ -= oldest.bytes;
      free_.give(oldest.address, oldest.bytes);
    }
    found = take_freed(bytes, alignment);
  }
  return found;
}

std::optional<std::uint64_t> AddressRanges::take_freed(Bytes bytes, Bytes alignment) {
  const Bytes with_slack = bytes + alignment - kBlockBytes;
  const std::optional<std::uint64_t> run = free_.take(with_slack);
  if (!run) {
    return std::nullopt;
  }
  const std::uint64_t aligned = round_up(*run, alignment);
  if (aligned > *run) {
    free_.give(*run, aligned - *run);
  }
  if (*run + with_slack > aligned + bytes) {
    free_.give(aligned + bytes, *run + with_slack - aligned - bytes);
  }
  return aligned;
}

void AddressRanges::give_back(std::uint64_t address, Bytes bytes) {
  resting_.push_back({.address = address, .bytes = bytes});
  resting_bytes_ += bytes;
}

void AddressRanges::name(std::uint64_t address, Bytes bytes, std::uint32_t number) {
  named_[address] = {.start = address, .bytes = bytes, .number = number, .dead = false};
}

void AddressRanges::forget(std::uint64_t address) { named_.erase(address); }

std::optional<AddressRanges::Named> AddressRanges::at(std::uint64_t address) const {
  const auto after = named_.upper_bound(address);
  if (after == named_.begin()) {
    return std::nullopt;
  }
  const Named& named = std::prev(after)->second;
  if (address - named.start >= named.bytes) {
    return std::nullopt;
  }
  return named;
}

}  // namespace spillway::cuda
