// Which of the iterations that are found in a program, as it says nothing of them, are worth
// watching one of. What repeats first may be a layer; what is found while a program sets up or
// changes is of many lengths. Layer: runtime. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "policy/prediction/iteration_finder.h"

namespace spillway {

class FoundIterations {
 public:
  // One of so many launches has ended. True if it was like those before it.
  bool ended(std::uint64_t launches) {
    const bool alike = apart(launches, launches_) <= launches_ / kUnlike;
    in_a_row_ = alike ? in_a_row_ + 1 : 0;
    launches_ = launches;
    return in_a_row_ >= kInARow && launches < IterationFinder::kLaunchesMax;
  }
  // The one that has ended was watched.
  void watched() { watched_launches_ = launches_; }
  // Those that are found now are not like the one that was watched.
  [[nodiscard]] bool other() const {
    return apart(launches_, watched_launches_) > watched_launches_ / kUnlike;
  }

 private:
  static constexpr std::uint64_t kUnlike = 8;  // by more than this part of it
  static constexpr std::uint64_t kInARow = 3;

  static std::uint64_t apart(std::uint64_t one, std::uint64_t another) {
    return std::max(one, another) - std::min(one, another);
  }

  std::uint64_t launches_ = 0;  // of the last one
  std::uint64_t watched_launches_ = 0;
  std::uint64_t in_a_row_ = 0;
};

}  // namespace spillway
