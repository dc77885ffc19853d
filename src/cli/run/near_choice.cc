// See near_choice.h.
#include "cli/run/near_choice.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "cli/run/run_values.h"

namespace spillway {
namespace {

NearChoice by_link(const std::optional<GpuFacts>& gpu, const LinkSpeed& held_to) {
  if (!gpu) {
    return {.on = false, .from = kDefault};
  }
  const double bytes_per_s = held_to.limited() ? held_to.bytes_per_s : gpu->link_bytes_per_s;
  if (bytes_per_s <= 0 || bytes_per_s > kNearPaysUpToBytesPerS) {
    return {.on = false, .from = kDefault};
  }
  return {
      .on = true,
      .from = fmt::format("{}: the link carries at most {:.3g} GB/s", kDefault, bytes_per_s / 1e9)};
}

}  // namespace

NearChoice choose_near(const std::string& option, const std::optional<GpuFacts>& gpu,
                       const LinkSpeed& held_to) {
  std::string asked = option;
  std::string from = "--near-optimizer";
  if (asked.empty()) {
    const char* const variable = std::getenv(kNearOptimizerVariable);
    asked = variable == nullptr ? "" : variable;
    from = kNearOptimizerVariable;
  }
  if (asked.empty() || asked == "auto") {
    return by_link(gpu, held_to);
  }
  return {.on = asked == "on", .from = std::move(from)};
}

}  // namespace spillway
