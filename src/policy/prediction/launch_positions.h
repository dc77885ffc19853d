// When two launches of a program that names no operands are the same again. Layer: policy.
// Names alone do not tell the layers of a network apart; what repeats is the order. So a launch is
// "the k-th addmm of its iteration". An operator that a program inserts now and then (an
// evaluation, a log) shifts only the numbers of its own kind, and only until the next iteration.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "policy/prediction/iteration_finder.h"
#include "policy/prediction/launch_hash.h"

namespace spillway {

class LaunchPositions {
 public:
  // `step`: the launch ends an iteration, as an optimizer's step does, so the next one begins here.
  // Where there are none the iteration is found (iteration_finder.h).
  LaunchHash next(std::string_view name, bool step);
  // Of the last launch: it was found that an iteration begins with it. How many launches the one
  // before it had; 0: none was found.
  [[nodiscard]] std::uint64_t found_after() const { return found_after_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  IterationFinder iterations_;
  std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> counts_;
  std::uint64_t launches_ = 0;  // since an iteration began
  std::uint64_t found_after_ = 0;
};

}  // namespace spillway
