// See launch_places.h.
#include "policy/prediction/launch_places.h"

#include <algorithm>
#include <utility>

namespace spillway {

LaunchPlaces::LaunchPlaces(std::vector<std::uint64_t> kinds) : kinds_(std::move(kinds)) {
  for (std::uint32_t place = 0; place < kinds_.size(); ++place) {
    by_kind_[kinds_[place]].push_back(place);
  }
}

std::optional<std::uint32_t> LaunchPlaces::issued(LaunchId launch, std::uint64_t kind) {
  ++count_.launches;
  const std::optional<std::uint32_t> place =
      kinds_[next_] == kind ? std::optional(next_) : find(kind);
  before_ = kind;
  if (!place) {
    ++count_.strayed;
    return std::nullopt;
  }
  next_ = (*place + 1) % static_cast<std::uint32_t>(kinds_.size());
  places_.emplace(launch, *place);
  return place;
}

// The next place behind the expected one where the launch before fits as well: layers look alike,
// and one launch alone says little.
std::optional<std::uint32_t> LaunchPlaces::find(std::uint64_t kind) const {
  const auto found = by_kind_.find(kind);
  if (found == by_kind_.end()) {
    return std::nullopt;
  }
  const std::vector<std::uint32_t>& places = found->second;
  const std::size_t count = kinds_.size();
  const auto fits = [&](std::uint32_t place) {
    return kinds_[(place + count - 1) % count] == before_;
  };
  const auto first = std::lower_bound(places.begin(), places.end(), next_);
  for (auto it = first; it != places.end(); ++it) {
    if (fits(*it)) {
      return *it;
    }
  }
  for (auto it = places.begin(); it != first; ++it) {
    if (fits(*it)) {
      return *it;
    }
  }
  return std::nullopt;
}

std::optional<std::uint32_t> LaunchPlaces::place_of(LaunchId launch) const {
  const auto found = places_.find(launch);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

LaunchPlaces::Count LaunchPlaces::take_count() { return std::exchange(count_, {}); }

}  // namespace spillway
