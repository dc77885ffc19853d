// See report_timeline.h.
#include "runtime/report/report_timeline.h"

#include <algorithm>

namespace spillway {
namespace {

// The sums at some moment.
struct Sums {
  std::array<std::array<double, kTierCount>, kTierCount> moved_bytes{};
  double stalled_s = 0;
};

// Between two samples, sums are taken to grow evenly. `next` is the first sample after the moment.
Sums sums_at(double at_s, const RunSample& before, const RunSample& next) {
  const double apart_s = next.at_s - before.at_s;
  const double part = apart_s > 0 ? std::clamp((at_s - before.at_s) / apart_s, 0.0, 1.0) : 1;
  const auto between = [&](auto from, auto to) {
    return static_cast<double>(from) + part * (static_cast<double>(to) - static_cast<double>(from));
  };
  Sums sums;
  for (std::size_t from = 0; from < kTierCount; ++from) {
    for (std::size_t to = 0; to < kTierCount; ++to) {
      sums.moved_bytes[from][to] =
          between(before.moved_bytes[from][to], next.moved_bytes[from][to]);
    }
  }
  sums.stalled_s = between(before.stalled_s, next.stalled_s);
  return sums;
}

void set_rates(TimelineSpan& span, const Sums& start, const Sums& end) {
  const double long_s = span.to_s - span.from_s;
  for (std::size_t from = 0; from < kTierCount; ++from) {
    for (std::size_t to = 0; to < kTierCount; ++to) {
      span.moved_bytes_per_s[from][to] =
          std::max(end.moved_bytes[from][to] - start.moved_bytes[from][to], 0.0) / long_s;
    }
  }
  span.stalled_fraction = std::clamp((end.stalled_s - start.stalled_s) / long_s, 0.0, 1.0);
}

void see(TimelineSpan& span, const RunSample& sample) {
  for (std::size_t tier = 0; tier < kTierCount; ++tier) {
    span.used_bytes[tier] = std::max(span.used_bytes[tier], sample.used_bytes[tier]);
  }
  span.live_bytes = std::max(span.live_bytes, sample.live_bytes);
}

}  // namespace

std::vector<TimelineSpan> spans_of(const std::vector<RunSample>& samples, std::size_t spans_max) {
  if (samples.empty() || samples.back().at_s <= 0) {
    return {};
  }
  const std::size_t count = std::min(samples.size(), spans_max);
  const double whole_s = samples.back().at_s;
  std::vector<TimelineSpan> spans(count);
  RunSample before;  // the start: nothing yet
  std::size_t next = 0;
  Sums start;
  for (std::size_t i = 0; i < count; ++i) {
    TimelineSpan& span = spans[i];
    span.from_s = whole_s * static_cast<double>(i) / static_cast<double>(count);
    span.to_s = whole_s * static_cast<double>(i + 1) / static_cast<double>(count);
    see(span, before);
    // The last sample stays: it is the end of the last span.
    while (next + 1 < samples.size() && samples[next].at_s <= span.to_s) {
      before = samples[next++];
      see(span, before);
    }
    if (samples[next].at_s <= span.to_s) {
      see(span, samples[next]);
    }
    const Sums end = sums_at(span.to_s, before, samples[next]);
    set_rates(span, start, end);
    start = end;
  }
  return spans;
}

}  // namespace spillway
