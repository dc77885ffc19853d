// See use_habit.h.
#include "policy/use_habit.h"

#include <algorithm>

namespace spillway {
namespace {

// After so many in a row a place is that of its own launch alone.
constexpr unsigned kMostInVain = 2;

}  // namespace

std::optional<std::size_t> UseHabit::find_itself(const Use& use) const {
  for (std::size_t place = 0; place < places_.size(); ++place) {
    if (use.execution != kNoExecution && places_.at(place).use.execution == use.execution) {
      return place;
    }
  }
  return std::nullopt;
}

// The one that came last, of several.
std::optional<std::size_t> UseHabit::find_like(const Use& use) const {
  if (use.execution == kNoExecution || use.kind == 0 || is_without(use.execution)) {
    return std::nullopt;
  }
  for (std::size_t back = 1; back <= places_.size(); ++back) {
    const std::size_t place = (next_place_ + places_.size() - back) % places_.size();
    if (places_.at(place).use.kind == use.kind && places_.at(place).in_vain < kMostInVain) {
      return place;
    }
  }
  return std::nullopt;
}

bool UseHabit::is_without(ExecutionId execution) const {
  return std::find(without_.begin(), without_.end(), execution) != without_.end();
}

std::optional<std::size_t> UseHabit::find(const Use& use) const {
  const std::optional<std::size_t> itself = find_itself(use);
  return itself ? itself : find_like(use);
}

// A kernel may use a block twice, and something come behind both: one that is like another takes
// its place only where there is no other.
std::optional<std::size_t> UseHabit::came(const Use& use) {
  if (use.execution == kNoExecution) {
    return std::nullopt;
  }
  std::optional<std::size_t> place = find_itself(use);
  if (!place && places_.at(next_place_).use.execution != kNoExecution) {
    place = find_like(use);
  }
  if (!place) {
    place = next_place_;
    next_place_ = (next_place_ + 1) % places_.size();
  }
  places_.at(*place) = {.use = use};
  std::replace(without_.begin(), without_.end(), use.execution, kNoExecution);
  return place;
}

void UseHabit::nothing_came(const Use& use) {
  if (use.execution != kNoExecution && use.kind != 0 && !find_itself(use) &&
      !is_without(use.execution)) {
    without_.at(next_without_) = use.execution;
    next_without_ = (next_without_ + 1) % without_.size();
  }
}

void UseHabit::in_vain(const Use& use) {
  if (const std::optional<std::size_t> itself = find_itself(use)) {
    places_.at(*itself) = {};
  } else if (const std::optional<std::size_t> like = find_like(use)) {
    ++places_.at(*like).in_vain;
  }
  nothing_came(use);
}

}  // namespace spillway
