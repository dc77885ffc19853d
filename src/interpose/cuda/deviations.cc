// See deviations.h.
#include "interpose/cuda/deviations.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/mutex.h"
#include "interpose/cuda/kernels/fingerprint_kernel.h"
#include "platform/common/process/say.h"
#include "policy/registry.h"

namespace spillway::cuda {
namespace {

// Never destroyed: threads of the program may run until the very end.
struct Kept {
  Mutex mutex;
  std::vector<std::string> lines SPILLWAY_GUARDED_BY(mutex);
};
Kept& kept() {
  static auto* const it = new Kept;
  return *it;
}

}  // namespace

void say_and_keep(std::string_view line) {
  say(line);
  constexpr std::size_t kMost = 100;
  const MutexLock lock(kept().mutex);
  if (kept().lines.size() < kMost) {
    kept().lines.emplace_back(line);
  }
}

std::vector<std::string> kept_lines() {
  const MutexLock lock(kept().mutex);
  return kept().lines;
}

void tell_of_others(const SpaceOptions& options, Bytes free_bytes, Bytes total_bytes, int device) {
  constexpr Bytes kOwnPart = 10;  // that contexts and libraries of this program may have
  if (std::getenv("SPILLWAY_DEVICE_MEMORY") == nullptr &&
      free_bytes < total_bytes - total_bytes / kOwnPart) {
    say_and_keep(
        fmt::format("device memory is {}: nine tenths of what is free on device {}, of which {} of "
                    "{} are in use; --device-memory says another",
                    format_bytes(options.device_bytes), device,
                    format_bytes(total_bytes - free_bytes), format_bytes(total_bytes)));
  }
}

void tell_without_recomputation(const SpaceOptions& options) {
  const Result<const PolicyInfo*> info = find_policy(options.policy);
  if (info && (*info)->traits.recomputes && !has_fingerprint_kernel()) {
    say_and_keep(
        "recomputation is off: the driver does not load Spillway's kernel for it; results are "
        "moved instead of made again");
  }
}

}  // namespace spillway::cuda
