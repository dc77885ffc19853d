// The timeline of a run cut into equal spans, with rates from sums. Layer: runtime.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "runtime/record/run_record.h"

namespace spillway {

struct TimelineSpan {
  double from_s = 0;
  double to_s = 0;
  TierBytes used_bytes{};  // the most that was seen in it
  Bytes live_bytes = 0;    // likewise
  std::array<std::array<double, kTierCount>, kTierCount> moved_bytes_per_s{};
  double stalled_fraction = 0;
};

// At most `spans_max` of them, from 0 to the last sample; no more than there are samples, since
// shorter spans would show nothing new. Empty if the samples cover no time.
[[nodiscard]] std::vector<TimelineSpan> spans_of(const std::vector<RunSample>& samples,
                                                 std::size_t spans_max);

}  // namespace spillway
