#include "platform/host/progress.h"

#include <fmt/format.h>

namespace spillway::host {

void Progress::check(HostState& state) {
  if (const std::optional<Error>& fatal = state.engine.fatal()) {
    state.failures.fatal(state.failures.with_cause(*fatal));
  } else if (const std::optional<Error> stuck = state.engine.stuck()) {
    // Updates may stand in the way of themselves and of others, and can do without.
    if (!state.updates.withdraw_waiting()) {
      state.failures.fatal(*stuck);
    }
  } else {
    warn_of_waiting(state);
  }
}

// A launch that runs may still end, so this is no error. But if it is the launch's own thread that
// waits, it will not.
void Progress::warn_of_waiting(const HostState& state) {
  const TimeNs stopped_ns = state.stalls.current_ns();
  if (warned_ || state.engine.transfers_in_flight() > 0 || stopped_ns == 0 ||
      stopped_ns < state.options.warn_after_ns) {
    return;
  }
  warned_ = true;
  state.options.warn(fmt::format(
      "a thread has waited {:.1f} s for memory that running launches leave no room "
      "for; {} of device memory are too few for what they name and what it touches "
      "beside that",
      to_seconds(stopped_ns), format_bytes(state.engine.capacity_bytes(Tier::kDevice))));
}

}  // namespace spillway::host
