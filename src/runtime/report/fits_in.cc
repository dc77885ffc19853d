// See fits_in.h.
#include "runtime/report/fits_in.h"

#include <fmt/format.h>

namespace spillway {

std::string exact_size(Bytes bytes) {
  constexpr Bytes kHalfGiB = kGiB / 2;
  if (bytes % kHalfGiB == 0) {
    return fmt::format("{}{} GiB", bytes / kGiB, bytes % kGiB == 0 ? "" : ".5");
  }
  return fmt::format("{} MiB", bytes / kMiB);
}

}  // namespace spillway
