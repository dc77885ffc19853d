// See host_budget.h.
#include "platform/cuda/memory/host_budget.h"

#include <utility>

namespace spillway::cuda {

Bytes HostBudget::most_pinned_bytes(Bytes host_mapped_bytes) const {
  const Bytes left_bytes = most_bytes_ - std::min(most_bytes_, host_mapped_bytes);
  return host_mapped_bytes == 0 ? left_bytes : left_bytes / piece_bytes_ * piece_bytes_;
}

void HostBudget::saw(const MemoryRoom& room, Bytes host_mapped_bytes, TimeNs now_ns) {
  room_ = room;
  there_bytes_ = pinned_bytes_ + host_mapped_bytes;
  seen_ns_ = now_ns;
}

bool HostBudget::set_short(bool is_short) {
  short_ = is_short;
  return is_short && !std::exchange(was_short_, true);
}

Bytes HostBudget::limit_bytes(Bytes host_mapped_bytes) const {
  const Bytes taken_bytes = pinned_bytes_ + host_mapped_bytes;
  if (ended_) {
    return taken_bytes;
  }
  if (!sees_system_) {
    return most_bytes_;
  }
  return std::min(most_bytes_, std::max(taken_bytes, there_bytes_ + room_.to_promise_bytes()));
}

Bytes HostBudget::host_mapped_capacity_bytes() const {
  if (!allowed_ || refused_ns_ != 0 || ended_) {
    return 0;
  }
  return most_bytes_ - std::min(most_bytes_, round_up(wanted_bytes_, piece_bytes_));
}

bool HostBudget::refused(TimeNs now_ns) {
  if (refused_ns_ == 0) {
    pause_ns_ = std::clamp(2 * pause_ns_, kAsKnownNs, kLongestPauseNs);
  }
  refused_ns_ = now_ns;
  return !std::exchange(was_refused_, true);
}

void HostBudget::still_refused(TimeNs now_ns) {
  pause_ns_ = std::min(2 * pause_ns_, kLongestPauseNs);
  refused_ns_ = now_ns;
}

}  // namespace spillway::cuda
