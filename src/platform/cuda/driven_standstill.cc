// What is done for a device that stands still. See standstill.h, driven_platform.h.
#include <fmt/format.h>

#include <optional>

#include "platform/common/process/clock.h"
#include "platform/cuda/driven_program_thread.h"

namespace spillway::cuda {

void DrivenPlatform::look_for_ends() {
  const bool helpless = launches_.unreleased() > 0 && engine_.transfers_in_flight() == 0 &&
                        queue_->empty() && !updates_.some_run();
  const Standstill::Found found = standstill_.look(helpless, now_ns());
  if (found.let_go) {
    let_next_go();
  }
  if (found.say) {
    options_.warn(fmt::format(
        "nothing has ended on the device for {} s, and launches wait for the memory of others: if "
        "those wait for something that only comes afterwards (a value, a host function), it never "
        "will; a larger device memory or host memory lets them run side by side",
        Standstill::kWithoutEndNs / kNsPerS));
  }
}

// What fits, however few the policy wants at once. If nothing more does, the next of each stream
// gets room as one that is larger than the budget: in host memory.
void DrivenPlatform::let_next_go() {
  standstill_.note_standing();
  governor_.let_all_in(true);
  (void)engine_.set_device_capacity(engine_.capacity_bytes(Tier::kDevice));
  for (StreamId id = 0; id < launches_.streams() && engine_.transfers_in_flight() == 0; ++id) {
    const std::optional<std::uint32_t> tag = launches_.first_unreleased(id);
    if (tag && !launches_.at(*tag).oversized) {
      let_go(*tag);
    }
  }
  governor_.let_all_in(false);
}

}  // namespace spillway::cuda
