// A trace in a few numbers.
#include "analysis/summary.h"

#include <algorithm>
#include <cmath>

namespace spillway {
namespace {

void add_tensor(TensorGroup& group, Bytes bytes) {
  ++group.count;
  group.bytes += bytes;
}

ActiveShare active_share(const Vitality& vitality, const MemoryCurve& curve) {
  ActiveShare share;
  if (curve.kernels.empty() || curve.peak_live_bytes == 0) {
    return share;
  }
  const auto peak = static_cast<double>(curve.peak_live_bytes);
  std::size_t below_tenth = 0;
  for (std::size_t kernel = 0; kernel < curve.kernels.size(); ++kernel) {
    const double active = static_cast<double>(curve.kernels[kernel].active_bytes) / peak;
    const TimeNs duration_ns =
        vitality.kernel_start_ns[kernel + 1] - vitality.kernel_start_ns[kernel];
    share.mean += active;
    share.time_mean += active * static_cast<double>(duration_ns);
    share.max = std::max(share.max, active);
    below_tenth += active < 0.1 ? 1 : 0;
  }
  const auto kernels = static_cast<double>(curve.kernels.size());
  share.mean /= kernels;
  share.time_mean /= static_cast<double>(vitality.kernel_start_ns.back());
  share.kernels_below_tenth = static_cast<double>(below_tenth) / kernels;
  return share;
}

PeriodSummary summarize_periods(const Trace& trace, const Vitality& vitality,
                                double bandwidth_bytes_per_s) {
  PeriodSummary summary;
  std::vector<TimeNs> lengths_ns;
  lengths_ns.reserve(vitality.periods.size());
  for (const InactivePeriod& period : vitality.periods) {
    const Bytes bytes = trace.tensors[period.tensor].bytes;
    lengths_ns.push_back(period.length_ns());
    summary.wrapping += period.wraps ? 1 : 0;
    summary.bytes += bytes;
    if (period.length_ns() >= round_trip_ns(bytes, bandwidth_bytes_per_s)) {
      ++summary.hideable;
      summary.hideable_bytes += bytes;
    }
  }
  summary.count = lengths_ns.size();
  if (lengths_ns.empty()) {
    return summary;
  }
  std::sort(lengths_ns.begin(), lengths_ns.end());
  summary.shortest_ns = lengths_ns.front();
  summary.longest_ns = lengths_ns.back();
  for (std::size_t i = 0; i < kPeriodPercentiles.size(); ++i) {
    const auto percent = static_cast<std::size_t>(kPeriodPercentiles[i]);
    const std::size_t rank = (percent * lengths_ns.size() + 99) / 100;
    summary.percentile_ns[i] = lengths_ns[rank - 1];
  }
  for (std::size_t i = 0; i < kPeriodDecadesNs.size(); ++i) {
    summary.longer_than[i] = static_cast<std::size_t>(
        lengths_ns.end() -
        std::upper_bound(lengths_ns.begin(), lengths_ns.end(), kPeriodDecadesNs[i]));
  }
  return summary;
}

}  // namespace

TimeNs round_trip_ns(Bytes bytes, double bandwidth_bytes_per_s) {
  const double time_ns = std::ceil(2 * static_cast<double>(bytes) / bandwidth_bytes_per_s *
                                   static_cast<double>(kNsPerS));
  return time_ns < static_cast<double>(kForever) ? static_cast<TimeNs>(time_ns) : kForever;
}

TraceSummary summarize(const Trace& trace, const Vitality& vitality, const MemoryCurve& curve,
                       double bandwidth_bytes_per_s) {
  TraceSummary summary;
  summary.iteration_ns = vitality.kernel_start_ns.back();
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    const Tensor& tensor = trace.tensors[id];
    add_tensor(tensor.persistent ? summary.persistent
               : tensor.scratch  ? summary.scratch
                                 : summary.intermediate,
               tensor.bytes);
    if (!vitality.lives[id]) {
      add_tensor(summary.unused, tensor.bytes);
    }
  }
  summary.active = active_share(vitality, curve);
  summary.periods = summarize_periods(trace, vitality, bandwidth_bytes_per_s);
  return summary;
}

}  // namespace spillway
