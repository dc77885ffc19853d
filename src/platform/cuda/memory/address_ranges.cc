// See address_ranges.h.
#include "platform/cuda/memory/address_ranges.h"

#include <algorithm>

namespace spillway::cuda {
namespace {

constexpr auto kBefore = [](std::uint64_t address, const AddressRanges::Named& named) {
  return address < named.start;
};

}  // namespace

std::optional<std::uint64_t> AddressRanges::take(Bytes bytes, Bytes alignment) {
  if (resting_bytes_ > rest_bytes_) {
    end_rest_beyond(rest_bytes_);
    if (const std::optional<std::uint64_t> rested = take_freed(bytes, alignment)) {
      return rested;
    }
  }
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
    end_rest_beyond(resting_bytes_ / 2);
    found = take_freed(bytes, alignment);
  }
  return found;
}

void AddressRanges::end_rest_beyond(Bytes keep_bytes) {
  while (resting_bytes_ > keep_bytes) {
    const Run oldest = resting_.front();
    resting_.pop_front();
    resting_bytes_ -= oldest.bytes;
    free_.give(oldest.address, oldest.bytes);
  }
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

AddressRanges::Page& AddressRanges::page_made(std::uint64_t number) {
  std::unique_ptr<Page[]>& together = pages_[number / kPagesTogether];
  if (together == nullptr) {
    together = std::make_unique<Page[]>(kPagesTogether);
  }
  return together[number % kPagesTogether];
}

void AddressRanges::reach(const Named& named, std::uint64_t from) {
  const std::uint64_t last = page_of(named.start + named.bytes);
  for (std::uint64_t i = page_of(named.start) + 1; i <= last; ++i) {
    page_made(i).reached_from = from;
  }
}

void AddressRanges::name(std::uint64_t address, Bytes bytes, std::uint32_t number) {
  const Named named{.start = address, .bytes = bytes, .number = number};
  std::vector<Named>& names = page_made(page_of(address)).names;
  names.insert(std::upper_bound(names.begin(), names.end(), address, kBefore), named);
  reach(named, page_of(address));
}

AddressRanges::Named* AddressRanges::starting_at(std::uint64_t address) {
  Page* const there = contains(address) ? page(page_of(address)) : nullptr;
  if (there == nullptr) {
    return nullptr;
  }
  std::vector<Named>& names = there->names;
  const auto after = std::upper_bound(names.begin(), names.end(), address, kBefore);
  return after == names.begin() || std::prev(after)->start != address ? nullptr
                                                                      : &*std::prev(after);
}

void AddressRanges::forget(std::uint64_t address) {
  if (const Named* const named = starting_at(address)) {
    reach(*named, kNoPage);
    std::vector<Named>& names = page_made(page_of(address)).names;
    names.erase(names.begin() + (named - names.data()));
    if (names.empty()) {
      names = std::vector<Named>();  // there are pages that are never used again
    }
  }
}

const AddressRanges::Named* AddressRanges::at(std::uint64_t address) const {
  const Page* there = contains(address) ? page(page_of(address)) : nullptr;
  if (there == nullptr) {
    return nullptr;
  }
  const Named* const named = last_before(
      *there, std::upper_bound(there->names.begin(), there->names.end(), address, kBefore));
  return named != nullptr && address - named->start < named->bytes ? named : nullptr;
}

AddressRanges::Pointed AddressRanges::pointed_at(std::uint64_t address) const {
  const Page* there = contains(address) ? page(page_of(address)) : nullptr;
  if (there == nullptr) {
    return {};
  }
  const auto after = std::upper_bound(there->names.begin(), there->names.end(), address, kBefore);
  const Named* const named = last_before(*there, after);
  if (named == nullptr) {
    return {};
  }
  const auto ends_there = [address](const Named* it) {
    return it != nullptr && it->start + it->bytes == address ? it : nullptr;
  };
  if (address - named->start >= named->bytes) {
    return {.in = nullptr, .ends = ends_there(named)};
  }
  return {.in = named,
          .ends = address != named->start ? nullptr : ends_there(last_before(*there, after - 1))};
}

}  // namespace spillway::cuda
