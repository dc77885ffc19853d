// See call_times.h.
#include "interpose/cuda/call_times.h"

#include <string_view>
#include <utility>

namespace spillway::cuda {
namespace detail {

constinit std::atomic<CallTimes*> call_times{nullptr};

}  // namespace detail

CallTimes::Told CallTimes::median(const OfKind& of, std::string name) {
  std::uint64_t count = 0;
  for (const auto& bin : of.ours) {
    count += bin.load(std::memory_order_relaxed);
  }
  std::uint64_t below = 0;
  std::size_t middle = 0;
  while (middle + 1 < kBins &&
         (below += of.ours[middle].load(std::memory_order_relaxed)) * 2 < count) {
    ++middle;
  }
  const TimeNs each_ns = static_cast<TimeNs>(middle) * kBinNs + kBinNs / 2;
  return {.name = std::move(name), .count = count, .time_ns = each_ns * static_cast<TimeNs>(count)};
}

std::vector<CallTimes::Told> CallTimes::told() const {
  static constexpr std::array<std::string_view, kKinds> kKindNames{
      "launch",       "allocation",  "free",     "copy",        "memset",
      "event_record", "stream_wait", "question", "synchronize", "other"};
  static constexpr std::array<std::string_view, kParts> kPartNames{"_ours", "_driver", "_ours_long",
                                                                   "_driver_long"};
  std::vector<Told> all;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    for (std::size_t part = 0; part < kParts; ++part) {
      const One& one = kinds_[kind].parts[part];
      all.push_back({.name = std::string(kKindNames[kind]).append(kPartNames[part]),
                     .count = one.count.load(std::memory_order_relaxed),
                     .time_ns = one.time_ns.load(std::memory_order_relaxed)});
    }
    all.push_back(median(kinds_[kind], std::string(kKindNames[kind]) + "_ours_median"));
  }
  constexpr std::uint64_t kTries = 10'000;
  CallTimes nothing;
  const TimeNs since_ns = now_ns();
  for (std::uint64_t i = 0; i < kTries; ++i) {
    CallTimer timer(&nothing, CallKind::kOther);
    (void)timer.driver([] { return 0; });
  }
  all.push_back({.name = "timing", .count = kTries, .time_ns = now_ns() - since_ns});
  return all;
}

}  // namespace spillway::cuda
