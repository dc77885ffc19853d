// Calls of the program in bypass mode, and when it is entered. See driven_platform.h,
// bypass_mode.h; docs/cuda.md.
#include <algorithm>
#include <optional>

#include "platform/cuda/driven_platform.h"

namespace spillway::cuda {

// Small allocations share frames, which may be nearly empty: so what has been counted here as
// alive must leave room as well.
bool DrivenPlatform::recycles_unannounced(Bytes bytes) const {
  constexpr Bytes kFreePart = 16;
  const Bytes budget_bytes = budget_bytes_.load(std::memory_order_relaxed);
  const Bytes with_placed_bytes = bytes + memory_->living_placed_bytes();
  return bypass_.calls().is_open() &&
         std::max(with_placed_bytes, live_bytes_.load(std::memory_order_relaxed)) <=
             budget_bytes - budget_bytes / kFreePart;
}

// --- A call -------------------------------------------------------------------------------------

bool DrivenPlatform::begin_bypassed(CuStream stream) {
  if (!bypass_.calls().is_open() || !may_bypass_on(stream)) {
    return false;
  }
  const CuStream meant = canonical(stream);
  CuContext context = nullptr;
  if (meant == nullptr) {
    (void)driver_.context_get_current(&context);
  }
  switch (bypass_.calls().begin(meant, context)) {
    case BypassedCalls::Begun::kBypassed:
      return true;
    case BypassedCalls::Begun::kMarked: {
      Lock lock(mutex_);
      take_mark();
      return false;
    }
    case BypassedCalls::Begun::kTracked:
      break;
  }
  Lock lock(mutex_);
  const StreamId id = stream_of(meant);
  if (!bypass_.calls().is_open() || broken_) {
    return false;
  }
  bypass_.note_call(meant, id);
  return true;
}

bool DrivenPlatform::may_bypass_on(CuStream stream) {
  return !is_per_thread(stream) && !BypassedCalls::thread_ends();
}

void DrivenPlatform::end_bypassed() {
  if (!bypass_.calls().end()) {
    Lock lock(mutex_);
    take_mark();
  }
}

// With the last of them the launch that stands for them has been made, and may be waited for.
void DrivenPlatform::take_mark() {
  const std::uint32_t tag = bypass_.calls().take_mark();
  const StreamId stream = launches_.at(tag).stream;
  if (launches_.bypassed_ended(tag)) {
    put_marker(stream);
  }
  launches_.bypassed_covered(stream);
  changed_.notify_all();
  queue_->wake();
}

// What the device has free is asked for without the lock.
void DrivenPlatform::order_what_nobody_uses() {
  bypass_.order_begins();
  if (!bypass_.may_order()) {
    return;
  }
  std::size_t free_bytes = 0;
  std::size_t device_bytes = 0;
  mutex_.unlock();
  const CuResult asked = driver_.memory_info(&free_bytes, &device_bytes);
  mutex_.lock();
  if (bypass_.may_order()) {
    bypass_.order_unused(asked == CuResult::kSuccess ? std::optional<Bytes>(free_bytes)
                                                     : std::nullopt);
  }
}

// --- Entering and leaving -----------------------------------------------------------------------

void DrivenPlatform::consider_bypass() {
  if (!bypass_.is_due()) {
    return;
  }
  const bool calm =
      governor_.all_fits() && launches_.waiting() == 0 && held_ == 0 &&
      launches_.oversized() == 0 && updates_.any() == 0 && engine_.transfers_in_flight() == 0 &&
      (captures_ == nullptr || *captures_ == 0) && !said_no_memory_ && !broken_ &&
      log_.events() == nullptr && recomputing_.at_rest() && engine_.host_mapped_bytes() == 0;
  if (!calm) {
    return;
  }
  recomputing_.forget_all();
  bypass_.enter();
}

// It may wait for what only comes later: nothing more than its own memory must wait with it, so
// what stands for the calls before it gets its completion marker now.
void DrivenPlatform::will_wait_for_value() {
  Lock lock(mutex_);
  bypass_.leave();
  waits_for_values_ = true;
  bypass_.stay_out();
  put_markers();
}

// What still has to be put on streams must not be captured, what stands for calls of which nobody
// was told least of all: so there is nothing of that kind until the capture has ended.
void DrivenPlatform::capture_begins() {
  {
    Lock lock(mutex_);
    bypass_.leave();
    remake_all(std::nullopt);
  }
  before_wait(std::nullopt);
}

void DrivenPlatform::watch_captures(const std::atomic<int>& under_way) {
  const Lock lock(mutex_);
  captures_ = &under_way;
}

}  // namespace spillway::cuda
