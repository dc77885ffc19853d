// Which part of a file is the iteration. Layer: trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace spillway {

// Positions are whatever orders the file's events: nanoseconds, numbers of nodes.
struct IterationRange {
  std::uint64_t begin = 0;  // the first position inside
  std::uint64_t end = 0;    // the first position behind
  std::string name;  // "ProfilerStep#3", "iteration 1 of 0 to 1, each up to an optimizer's step"

  [[nodiscard]] bool contains(std::uint64_t at) const { return at >= begin && at < end; }
};

// Collects what marks iterations, in any order. Marks of the profiler go before steps of
// optimizers. Without either the whole file is one iteration.
class IterationChoice {
 public:
  // An annotation of the program from `begin` up to `end`: ProfilerStep#N or Optimizer.step#NAME.
  // Other names are ignored. kInvalidInput where there are too many.
  [[nodiscard]] Status annotation(std::string_view name, std::uint64_t begin, std::uint64_t end);
  // The wanted iteration, or the last. kInvalidInput where it is not there, with what is.
  [[nodiscard]] Result<IterationRange> choose(std::optional<std::uint64_t> wanted) const;

 private:
  struct Step {
    std::uint64_t number;
    std::uint64_t begin;
    std::uint64_t end;
  };

  std::vector<Step> steps_;
  std::vector<std::uint64_t> optimizer_ends_;
};

// Whether `name` is that of an optimizer's step.
[[nodiscard]] inline bool is_optimizer_step(std::string_view name) {
  return name.starts_with("Optimizer.step#");
}

}  // namespace spillway
