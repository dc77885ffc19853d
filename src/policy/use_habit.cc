// See use_habit.h.
#include "policy/use_habit.h"

#include <algorithm>

namespace spillway {

std::optional<std::size_t> UseHabit::find_itself(const Use& use) const {
  for (std::size_t place = 0; place < uses_.size(); ++place) {
    if (use.execution != kNoExecution && uses_.at(place).execution == use.execution) {
      return place;
    }
  }
  return std::nullopt;
}

bool UseHabit::is_idle(ExecutionId execution) const {
  return std::find(idle_.begin(), idle_.end(), execution) != idle_.end();
}

std::optional<std::size_t> UseHabit::find(const Use& use) const {
  if (const std::optional<std::size_t> itself = find_itself(use)) {
    return itself;
  }
  for (std::size_t place = 0; place < uses_.size(); ++place) {
    if (use.execution != kNoExecution && use.kind != 0 && uses_.at(place).kind == use.kind &&
        !is_idle(use.execution)) {
      return place;
    }
  }
  return std::nullopt;
}

std::size_t UseHabit::came(const Use& use) {
  std::optional<std::size_t> place = find(use);
  if (!place) {
    place = next_place_;
    next_place_ = (next_place_ + 1) % uses_.size();
  }
  uses_.at(*place) = use;
  std::replace(idle_.begin(), idle_.end(), use.execution, kNoExecution);
  return *place;
}

void UseHabit::nothing_came(const Use& use) {
  if (use.execution != kNoExecution && !find_itself(use) && !is_idle(use.execution)) {
    idle_.at(next_idle_) = use.execution;
    next_idle_ = (next_idle_ + 1) % idle_.size();
  }
}

void UseHabit::in_vain(const Use& use) {
  if (const std::optional<std::size_t> itself = find_itself(use)) {
    uses_.at(*itself) = {};
  }
  nothing_came(use);
}

}  // namespace spillway
