// Updates next to their data, for libspillway_near: near/at_host.h. Layer: interpose, host.
#include "near/at_host.h"

#include <optional>

#include "interpose/host/session.h"
#include "near/at_host_answers.h"
#include "platform/common/process/service_thread.h"
#include "platform/common/program_platform.h"

namespace spillway::preload {
namespace {

ProgramPlatform* platform() {
  Session* const now = session(false);
  return now == nullptr ? nullptr : &now->space->platform();
}

}  // namespace
}  // namespace spillway::preload

extern "C" {

int spillway_at_host_begin(const spillway_at_host_operand* operands, std::size_t count,
                           std::size_t parts, void* /*stream*/, std::uint64_t* updates) {
  const spillway::InService inside;
  spillway::ProgramPlatform* const platform = spillway::preload::platform();
  if (platform == nullptr || parts != 1) {
    return 0;
  }
  const std::optional<spillway::UpdateId> begun =
      platform->begin_update(spillway::near::named(operands, count));
  *updates = begun.value_or(0);
  return begun ? 1 : 0;
}

std::size_t spillway_at_host_extents(std::uint64_t update, std::size_t operand,
                                     spillway_at_host_extent* to, std::size_t most) {
  const spillway::InService inside;
  return spillway::near::known_extents().tell(update, operand, to, most, [&] {
    return spillway::preload::platform()->update_extents(update);
  });
}

void spillway_at_host_end(std::uint64_t update) {
  const spillway::InService inside;
  spillway::near::known_extents().forget(update);
  spillway::preload::platform()->end_update(update);
}

}  // extern "C"
