// See illegal_access.h.
#include "interpose/cuda/illegal_access.h"

#include <fmt/format.h>

#include <string>

#include "interpose/cuda/operands/kernel_layouts.h"
#include "runtime/report/fits_in.h"

namespace spillway::cuda {

void tell_of_illegal_access(const Session& session) {
  const std::string kernels = names_that_reach();
  const ProgramStats stats = session.platform->stats();
  if (kernels.empty() || stats.engine.evictions == 0) {
    return;
  }
  static std::atomic<bool> told{false};
  say_once(told,
           fmt::format("the device reports an illegal access (700). Perhaps a kernel followed an "
                       "address that Spillway has not seen, to memory that had left the device. "
                       "These kernels may follow addresses: {}. To find out, run with less work, "
                       "or with --device-memory {}MiB, where everything fits",
                       kernels, round_up(fits_in_bytes(stats.frames_peak_bytes), kMiB) / kMiB));
}

}  // namespace spillway::cuda
