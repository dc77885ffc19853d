// Calls of the program in bypass mode, and when it is entered. See call_bypass.h; docs/cuda.md.
#include "platform/cuda/program/call_bypass.h"

#include <algorithm>
#include <optional>

#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"

namespace spillway::cuda {

bool CallBypass::calls_are_open() const { return state_.bypass.calls().is_open(); }

std::uint64_t CallBypass::bypassed_calls() const { return state_.bypass.calls().calls(); }

bool CallBypass::begin_bypassed(CuStream stream) {
  if (!state_.bypass.calls().is_open() || !may_bypass_on(stream)) {
    return false;
  }
  const CuStream meant = canonical(stream);
  CuContext context = nullptr;
  if (meant == nullptr) {
    (void)state_.driver.context_get_current(&context);
  }
  switch (state_.bypass.calls().begin(meant, context)) {
    case BypassedCalls::Begun::kBypassed:
      return true;
    case BypassedCalls::Begun::kMarked: {
      const Lock lock(state_);
      take_mark();
      return false;
    }
    case BypassedCalls::Begun::kTracked:
      break;
  }
  const Lock lock(state_);
  const StreamId id = parts_.streams.stream_of(meant);
  if (!state_.bypass.calls().is_open() || state_.broken) {
    return false;
  }
  state_.bypass.note_call(meant, id);
  return true;
}

bool CallBypass::may_bypass_on(CuStream stream) {
  return !is_per_thread(stream) && !BypassedCalls::thread_ends();
}

void CallBypass::end_bypassed() {
  if (!state_.bypass.calls().end()) {
    const Lock lock(state_);
    take_mark();
  }
}

// With the last of them the launch that stands for them has been made, and may be waited for.
void CallBypass::take_mark() {
  const std::uint32_t tag = state_.bypass.calls().take_mark();
  const StreamId stream = state_.launches.at(tag).stream;
  if (state_.launches.bypassed_ended(tag)) {
    parts_.markers.put_marker(stream);
  }
  state_.launches.bypassed_covered(stream);
  state_.changed.notify_all();
  state_.queue->wake();
}

// What the device has free is asked for without the lock.
void CallBypass::order_what_nobody_uses() {
  state_.bypass.order_begins();
  if (!state_.bypass.may_order()) {
    return;
  }
  std::size_t free_bytes = 0;
  std::size_t device_bytes = 0;
  const CuResult asked =
      state_.without_lock([&] { return state_.driver.memory_info(&free_bytes, &device_bytes); });
  if (state_.bypass.may_order()) {
    state_.bypass.order_unused(asked == CuResult::kSuccess ? std::optional<Bytes>(free_bytes)
                                                           : std::nullopt);
  }
}

void CallBypass::consider_bypass() {
  if (!state_.bypass.is_due()) {
    return;
  }
  const bool calm =
      state_.governor.all_fits() && state_.launches.waiting() == 0 && state_.held == 0 &&
      state_.launches.oversized() == 0 && parts_.updates.under_way().any() == 0 &&
      state_.engine.transfers_in_flight() == 0 && !parts_.streams.is_capturing() &&
      !parts_.mechanism.device_is_short() && !state_.broken && state_.log.events() == nullptr &&
      state_.recomputing.at_rest() && state_.engine.host_mapped_bytes() == 0;
  if (!calm) {
    return;
  }
  state_.recomputing.forget_all();
  state_.bypass.enter();
}

}  // namespace spillway::cuda
