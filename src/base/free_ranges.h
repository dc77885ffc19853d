// Ranges of numbers that are free, for whoever hands out numbers or addresses in runs. Ground
// floor.
#pragma once

#include <cassert>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace spillway {

// Best fit: the shortest run that is long enough, of several the one that begins first. Every
// operation costs the logarithm of the number of runs. Runs that touch become one.
class FreeRanges {
 public:
  using Number = std::uint64_t;

  // Takes `count` numbers in a row; returns the first. nullopt where no run is long enough.
  [[nodiscard]] std::optional<Number> take(Number count) {
    const auto fits = by_count_.lower_bound({count, 0});
    if (fits == by_count_.end()) {
      return std::nullopt;
    }
    const auto [length, first] = *fits;
    remove(first, length);
    if (length > count) {
      insert(first + count, length - count);
    }
    return first;
  }

  // The numbers are free. Returns the whole run, first and count, in which they lie now.
  std::pair<Number, Number> give(Number first, Number count) {
    const auto after = by_first_.lower_bound(first);
    assert(after == by_first_.end() || first + count <= after->first);
    if (after != by_first_.end() && after->first == first + count) {
      count += after->second;
      remove(after->first, after->second);
    }
    const auto next = by_first_.lower_bound(first);
    if (next != by_first_.begin()) {
      const auto [before, length] = *std::prev(next);
      assert(before + length <= first);
      if (before + length == first) {
        remove(before, length);
        first = before;
        count += length;
      }
    }
    insert(first, count);
    return {first, count};
  }

  // This run, as it is, is free no more.
  void remove(Number first, Number count) {
    assert(by_first_.at(first) == count);
    by_first_.erase(first);
    by_count_.erase({count, first});
  }

 private:
  void insert(Number first, Number count) {
    by_first_.emplace(first, count);
    by_count_.emplace(count, first);
  }

  std::map<Number, Number> by_first_;             // first number and count; no two touch
  std::set<std::pair<Number, Number>> by_count_;  // the same, count first
};

}  // namespace spillway
