// The next N kernels as the execution table sees them from the current one, kept up to date as the
// program goes on (DeepUM sections 4.2 and 5.1). Layer: policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "policy/correlation/execution_table.h"

namespace spillway {

// Both the chain of prefetches and the protection from pre-eviction look through this window, so
// that they never disagree. Holds a reference to the table. Not safe for concurrent use.
class PredictedLaunches {
 public:
  // N = `degree`; 0 looks no further than the current kernel.
  PredictedLaunches(const ExecutionTable& table, std::uint32_t degree)
      : table_(table), ring_(degree) {}

  // `current` is being launched; call it after the table has been told of the transition. Returns
  // whether that was what had been predicted: then the window moves by one, otherwise all is
  // predicted anew.
  bool advance(ExecutionId current, const ExecutionHistory& history);

  // kNoExecution before the first advance.
  [[nodiscard]] ExecutionId current() const { return current_; }
  [[nodiscard]] std::uint32_t degree() const { return static_cast<std::uint32_t>(ring_.size()); }
  // How many launches ahead could be predicted, at most the degree.
  [[nodiscard]] std::uint32_t count() const { return count_; }
  // How many of them, the furthest ones, the last advance added.
  [[nodiscard]] std::uint32_t fresh() const { return fresh_; }
  // The launch `distance` after the current one; distance 0 is the current one. At most count().
  [[nodiscard]] ExecutionId at(std::uint32_t distance) const {
    return distance == 0 ? current_ : ring_[(head_ + distance - 1) % ring_.size()];
  }

 private:
  const ExecutionTable& table_;
  std::vector<ExecutionId> ring_;
  std::size_t head_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t fresh_ = 0;
  ExecutionId current_ = kNoExecution;
  ExecutionId furthest_ = kNoExecution;  // the last one in the window, or the current one
  ExecutionHistory before_furthest_;
};

}  // namespace spillway
