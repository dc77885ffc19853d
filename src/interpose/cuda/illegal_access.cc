// See illegal_access.h.
#include "interpose/cuda/illegal_access.h"

#include <fmt/format.h>

#include <string>

#include "interpose/cuda/operands/kernel_layouts.h"

namespace spillway::cuda {

void tell_of_illegal_access(const Session& session) {
  const std::string kernels = names_that_reach();
  const ProgramStats stats = session.platform->stats();
  if (kernels.empty() || stats.engine.evictions == 0) {
    return;
  }
  static std::atomic<bool> told{false};
  say_once(told, fmt::format(
                     "the device reports an illegal access (700). A kernel may have followed an "
                     "address that nobody has seen to memory that is not on the device; these may "
                     "follow addresses: {}. With --device-memory {}MiB nothing has to leave",
                     kernels, stats.frames_peak_bytes >> 20U));
}

}  // namespace spillway::cuda
