// See standstill.h.
#include "platform/cuda/stream/standstill.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace spillway::cuda {
namespace {

// A kernel may take so long by itself, and its memory would have come free then.
constexpr TimeNs kStandsStillNs = 1'000'000'000;
// While those stand that stood then.
constexpr TimeNs kStillStandingNs = 5'000'000;

}  // namespace

Standstill::Found Standstill::look(bool helpless, TimeNs now_ns) {
  if (!helpless || launches_->ended_ns() > without_end_since_ns_ || without_end_since_ns_ == 0) {
    without_end_since_ns_ = now_ns;
    return {};
  }
  const TimeNs without_end_ns = now_ns - without_end_since_ns_;
  return {.let_go = without_end_ns > (stands_still() ? kStillStandingNs : kStandsStillNs),
          .say = without_end_ns > kWithoutEndNs && !std::exchange(has_said_, true)};
}

bool Standstill::nothing_ends(TimeNs now_ns) {
  if (held_back_since_ns_ <= launches_->ended_ns()) {
    held_back_since_ns_ = now_ns;
  }
  return now_ns - held_back_since_ns_ > kStandsStillNs;
}

void Standstill::note_standing() {
  if (stands_still()) {
    return;
  }
  standing_.clear();
  for (StreamId id = 0; id < launches_->streams(); ++id) {
    if (const std::optional<std::uint64_t> number = launches_->first_open(id)) {
      standing_.push_back({.stream = id, .number = *number});
    }
  }
}

bool Standstill::stands_still() const {
  return std::any_of(standing_.begin(), standing_.end(), [this](const Standing& it) {
    return launches_->stream(it.stream).ended < it.number;
  });
}

}  // namespace spillway::cuda
