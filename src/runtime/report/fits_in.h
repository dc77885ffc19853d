// How much device memory a run would have needed to move nothing. Layer: runtime.
#pragma once

#include <algorithm>
#include <string>

#include "base/units.h"

namespace spillway {

// With so much nothing moves of a program that had at most `peak_bytes` at once, in frames. That
// itself would do if runs were alike: but small allocations share frames as they happen to come,
// and memory is handed on without a word only where a sixteenth of the budget is free
// (docs/cuda.md). Rounded up to what can be said in a few digits.
[[nodiscard]] constexpr Bytes fits_in_bytes(Bytes peak_bytes) {
  constexpr Bytes kOfBudget = 16;
  constexpr Bytes kLeastRoom = 8 * kBlockBytes;
  const Bytes bytes = peak_bytes + std::max(peak_bytes / (kOfBudget - 1), kLeastRoom);
  const Bytes step_bytes = bytes < kGiB         ? kBlockBytes
                           : bytes < 10 * kGiB  ? 32 * kMiB
                           : bytes < 100 * kGiB ? kGiB / 2
                                                : kGiB;
  return round_up(bytes, step_bytes);
}

// Of whole MiB, without rounding: "1120 MiB", "26.5 GiB".
[[nodiscard]] std::string exact_size(Bytes bytes);

}  // namespace spillway
