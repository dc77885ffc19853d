// A trace in a few numbers: tensors, memory, inactive periods. What `spillway analyze` reports.
// Layer: analysis (G10 section 3).
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "analysis/memory_curve.h"
#include "analysis/vitality.h"
#include "trace/trace.h"

namespace spillway {

struct TensorGroup {
  std::size_t count = 0;
  Bytes bytes = 0;
};

// Kernels' operands as a share of the most memory that is ever alive (G10 figure 2).
struct ActiveShare {
  double mean = 0;       // over kernels
  double time_mean = 0;  // over time
  double max = 0;
  double kernels_below_tenth = 0;  // the share of kernels whose operands are less than 10 %
};

inline constexpr std::array<int, 7> kPeriodPercentiles = {10, 25, 50, 75, 90, 95, 99};
// Decades that the lengths of periods are compared with: 10 us to 100 s.
inline constexpr std::array<TimeNs, 8> kPeriodDecadesNs = {10 * kNsPerUs, 100 * kNsPerUs, kNsPerMs,
                                                           10 * kNsPerMs, 100 * kNsPerMs, kNsPerS,
                                                           10 * kNsPerS,  100 * kNsPerS};

struct PeriodSummary {
  std::size_t count = 0;
  std::size_t wrapping = 0;
  TimeNs shortest_ns = 0;
  TimeNs longest_ns = 0;
  std::array<TimeNs, kPeriodPercentiles.size()> percentile_ns{};   // nearest rank
  std::array<std::size_t, kPeriodDecadesNs.size()> longer_than{};  // count, by decade
  // Periods during which the tensor can leave and return at the bandwidth without being missed.
  std::size_t hideable = 0;
  Bytes hideable_bytes = 0;  // sum of the tensors' sizes over those periods
  Bytes bytes = 0;           // the same over all periods
};

struct TraceSummary {
  TimeNs iteration_ns = 0;
  TensorGroup persistent;
  TensorGroup intermediate;  // neither persistent nor scratch
  TensorGroup scratch;
  TensorGroup unused;  // of all the former, those that no kernel uses
  ActiveShare active;
  PeriodSummary periods;
};

// Time to move a tensor out and back in, at a bandwidth (more than 0) each way.
[[nodiscard]] TimeNs round_trip_ns(Bytes bytes, double bandwidth_bytes_per_s);

// The vitality and the curve must be the trace's own; the bandwidth more than 0.
[[nodiscard]] TraceSummary summarize(const Trace& trace, const Vitality& vitality,
                                     const MemoryCurve& curve, double bandwidth_bytes_per_s);

}  // namespace spillway
