// Finds where an issued launch stands in a known iteration. Layer: policy.
// A launch that comes where it is expected is found at once. After an unexpected one, the next
// place at which a few launches in a row match is taken.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "engine/types.h"

namespace spillway {

class LaunchPlaces {
 public:
  // kinds: of the launches of an iteration, at least one.
  explicit LaunchPlaces(std::vector<std::uint64_t> kinds);

  // The launch's place; nullopt for one that is not known there.
  std::optional<std::uint32_t> issued(LaunchId launch, std::uint64_t kind);
  // The same, later.
  [[nodiscard]] std::optional<std::uint32_t> place_of(LaunchId launch) const;
  void ended(LaunchId launch) { places_.erase(launch); }

  [[nodiscard]] std::size_t size() const { return kinds_.size(); }
  // Launches since it was last asked, and how many of them had no place.
  struct Count {
    std::uint64_t launches = 0;
    std::uint64_t strayed = 0;
  };
  Count take_count();

 private:
  [[nodiscard]] std::optional<std::uint32_t> find(std::uint64_t kind) const;

  std::vector<std::uint64_t> kinds_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> by_kind_;  // places, ascending
  std::unordered_map<LaunchId, std::uint32_t> places_;
  std::uint32_t next_ = 0;    // the place that is expected
  std::uint64_t before_ = 0;  // kind of the launch before
  Count count_;
};

}  // namespace spillway
