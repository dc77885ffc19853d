#include "policy/prediction/predicted_launches.h"

#include <optional>

namespace spillway {

bool PredictedLaunches::advance(ExecutionId current, const ExecutionHistory& history) {
  const bool as_predicted = count_ > 0 && at(1) == current;
  if (as_predicted) {
    head_ = (head_ + 1) % ring_.size();
    --count_;
  } else {
    count_ = 0;
    furthest_ = current;
    before_furthest_ = history;
  }
  current_ = current;
  fresh_ = 0;
  while (count_ < ring_.size()) {
    const std::optional<ExecutionId> next = table_.predict(before_furthest_, furthest_);
    if (!next) break;
    before_furthest_.push(furthest_);
    furthest_ = *next;
    ring_[(head_ + count_) % ring_.size()] = *next;
    ++count_;
    ++fresh_;
  }
  return as_predicted;
}

}  // namespace spillway
