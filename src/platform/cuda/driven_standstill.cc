// A device on which nothing ends: what runs may wait for the host, or for something that comes from
// what has no room beside it (a value that another stream writes, a host function, another
// process). Nobody here can know; but as long as there is host memory for it, what waits can be let
// go. See driven_platform.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "platform/common/clock.h"
#include "platform/cuda/driven_program_thread.h"

namespace spillway::cuda {
namespace {

// A kernel may take so long by itself, and its memory would have come free then.
constexpr TimeNs kPatienceNs = 1'000'000'000;
// While those stand that stood then.
constexpr TimeNs kShortPatienceNs = 5'000'000;
constexpr TimeNs kWithoutEndNs = 10'000'000'000;

}  // namespace

void DrivenPlatform::look_for_ends() {
  const bool helpless = launches_.unreleased() > 0 && engine_.transfers_in_flight() == 0 &&
                        queue_->empty() && !updates_.some_run() &&
                        launches_.ended_ns() <= without_end_since_ns_;
  const TimeNs at_ns = now_ns();
  if (!helpless || without_end_since_ns_ == 0) {
    without_end_since_ns_ = at_ns;
    return;
  }
  const TimeNs without_end_ns = at_ns - without_end_since_ns_;
  if (without_end_ns > (stands_still() ? kShortPatienceNs : kPatienceNs)) {
    let_next_go();
  }
  if (without_end_ns > kWithoutEndNs && !std::exchange(told_without_end_, true)) {
    options_.warn(fmt::format(
        "nothing has ended on the device for {} s, and launches wait for the memory of others: if "
        "those wait for something that only comes afterwards (a value, a host function), it never "
        "will; a larger device memory or host memory lets them run side by side",
        kWithoutEndNs / kNsPerS));
  }
}

// For a program's thread that is held until some have ended.
bool DrivenPlatform::nothing_ends() {
  if (held_back_since_ns_ <= launches_.ended_ns()) {
    held_back_since_ns_ = now_ns();
  }
  return now_ns() - held_back_since_ns_ > kPatienceNs;
}

bool DrivenPlatform::stands_still() const {
  return std::any_of(standing_.begin(), standing_.end(), [this](const Standing& it) {
    return launches_.stream(it.stream).ended < it.number;
  });
}

// What fits, however few the policy wants at once. If nothing more does, the next of each stream
// gets room as one that is larger than the budget: in host memory.
void DrivenPlatform::let_next_go() {
  if (!stands_still()) {
    standing_.clear();
    for (StreamId id = 0; id < launches_.streams(); ++id) {
      if (const std::optional<std::uint64_t> number = launches_.first_open(id)) {
        standing_.push_back({.stream = id, .number = *number});
      }
    }
  }
  patience_.let_all_in(true);
  (void)engine_.set_device_capacity(engine_.capacity_bytes(Tier::kDevice));
  for (StreamId id = 0; id < launches_.streams() && engine_.transfers_in_flight() == 0; ++id) {
    const std::optional<std::uint32_t> tag = launches_.first_unreleased(id);
    if (tag && !launches_.at(*tag).oversized) {
      let_go(*tag);
    }
  }
  patience_.let_all_in(false);
}

}  // namespace spillway::cuda
