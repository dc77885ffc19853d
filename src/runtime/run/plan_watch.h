// Whether a plan still fits its program, told from what the iterations that follow it fault on: a
// program may go on to longer sequences, another phase of training, a different loop.
// Layer: runtime. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace spillway {

class PlanWatch {
 public:
  // The iteration that ends now was the last one without the plan. Faults are sums since the start
  // of the run.
  void begin(std::uint64_t faults) {
    faults_ = faults;
    least_ = std::numeric_limits<std::uint64_t>::max();
    in_a_row_ = 0;
  }

  // An iteration has ended. True if it is time to plan anew: several in a row have faulted much
  // more than the best under this plan. Each time it takes twice as many, so that a program that
  // changes all the time is not planned for all the time.
  bool outdated(std::uint64_t faults) {
    const std::uint64_t here = faults - faults_;
    faults_ = faults;
    const bool many = least_ < (here - std::min(here, kNoise)) / kTimes;
    least_ = std::min(least_, here);
    in_a_row_ = many ? in_a_row_ + 1 : 0;
    if (in_a_row_ < may_stray_) {
      return false;
    }
    may_stray_ *= 2;
    return true;
  }

 private:
  static constexpr std::uint64_t kTimes = 2;
  static constexpr std::uint64_t kNoise = 16;

  std::uint64_t faults_ = 0;
  std::uint64_t least_ = 0;
  std::uint32_t in_a_row_ = 0;
  std::uint32_t may_stray_ = 2;
};

}  // namespace spillway
