// See use_habit.h.
#include "policy/prediction/use_habit.h"

#include <algorithm>

namespace spillway {
namespace {

// After so many in a row a place is that of its own launch alone.
constexpr unsigned kMostInVain = 2;

}  // namespace

void UseHabit::used(const Launch& launch) {
  if (last_use_ == launch.seq && last_.execution == launch.execution) {
    return;
  }
  nothing_came();
  last_ = {launch.execution, launch.kind};
  last_use_ = launch.seq;
}

std::optional<std::size_t> UseHabit::place_itself() const {
  for (std::size_t place = 0; place < places_.size(); ++place) {
    if (last_.execution != kNoExecution && places_.at(place).use.execution == last_.execution) {
      return place;
    }
  }
  return std::nullopt;
}

// The one that came last, of several.
std::optional<std::size_t> UseHabit::place_of_like() const {
  if (last_.execution == kNoExecution || last_.kind == 0 || is_without(last_.execution)) {
    return std::nullopt;
  }
  for (std::size_t back = 1; back <= places_.size(); ++back) {
    const std::size_t place = (next_place_ + places_.size() - back) % places_.size();
    if (places_.at(place).use.kind == last_.kind && places_.at(place).in_vain < kMostInVain) {
      return place;
    }
  }
  return std::nullopt;
}

bool UseHabit::is_without(ExecutionId execution) const {
  return std::find(without_.begin(), without_.end(), execution) != without_.end();
}

std::optional<std::size_t> UseHabit::place() const {
  const std::optional<std::size_t> itself = place_itself();
  return itself ? itself : place_of_like();
}

// A kernel may use a block twice, and something come behind both: one that is like another takes
// its place only where there is no other.
std::optional<std::size_t> UseHabit::came() {
  if (last_.execution == kNoExecution) {
    return std::nullopt;
  }
  std::optional<std::size_t> place = place_itself();
  if (!place && places_.at(next_place_).use.execution != kNoExecution) {
    place = place_of_like();
  }
  if (!place) {
    place = next_place_;
    next_place_ = (next_place_ + 1) % places_.size();
  }
  places_.at(*place) = {.use = last_};
  std::replace(without_.begin(), without_.end(), last_.execution, kNoExecution);
  return place;
}

void UseHabit::nothing_came() {
  if (last_.execution != kNoExecution && last_.kind != 0 && !place_itself() &&
      !is_without(last_.execution)) {
    without_.at(next_without_) = last_.execution;
    next_without_ = (next_without_ + 1) % without_.size();
  }
}

void UseHabit::in_vain() {
  if (const std::optional<std::size_t> itself = place_itself()) {
    places_.at(*itself) = {};
  } else if (const std::optional<std::size_t> like = place_of_like()) {
    ++places_.at(*like).in_vain;
  }
}

}  // namespace spillway
