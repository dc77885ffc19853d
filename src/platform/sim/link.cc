// Progressive filling. See link.h.
#include "platform/sim/link.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace spillway::sim {
namespace {

// A flow with less than this left is done: rounding of times to whole nanoseconds leaves crumbs.
constexpr double kCrumbBytes = 0.5;
constexpr ResourceSet kEveryResource = (1U << kResourceCount) - 1;

}  // namespace

FairShare::FairShare(const std::array<double, kResourceCount>& bytes_per_s) {
  for (std::size_t i = 0; i < kResourceCount; ++i) {
    bytes_per_ns_[i] = bytes_per_s[i] * 1e-9;
  }
}

void FairShare::start(std::uint64_t key, ResourceSet resources, Bytes bytes, TimeNs now_ns) {
  assert(resources != 0);
  advance(now_ns);
  flows_.push_back({key, resources, static_cast<double>(bytes), 0});
  share();
}

void FairShare::set_bandwidth(Resource resource, double bytes_per_s, TimeNs now_ns) {
  advance(now_ns);
  bytes_per_ns_[static_cast<std::size_t>(resource)] = bytes_per_s * 1e-9;
  share();
}

void FairShare::advance(TimeNs now_ns) {
  assert(now_ns >= now_ns_);
  const auto elapsed_ns = static_cast<double>(now_ns - now_ns_);
  now_ns_ = now_ns;
  if (elapsed_ns <= 0) {
    return;
  }
  for (Flow& flow : flows_) {
    const double moved = std::min(flow.left_bytes, flow.bytes_per_ns * elapsed_ns);
    flow.left_bytes -= moved;
    for (std::size_t i = 0; i < kResourceCount; ++i) {
      carried_[i] += has(flow.resources, i) ? moved : 0;
    }
  }
}

// The most crowded resource decides what its flows get; the others share what is left.
void FairShare::share() {
  std::array<double, kResourceCount> left = bytes_per_ns_;
  std::array<int, kResourceCount> users{};
  for (Flow& flow : flows_) {
    flow.bytes_per_ns = -1;
    for (std::size_t i = 0; i < kResourceCount; ++i) {
      users[i] += has(flow.resources, i) ? 1 : 0;
    }
  }
  for (std::size_t unshared = flows_.size(); unshared > 0;) {
    std::size_t tightest = kResourceCount;
    double fair = 0;
    for (std::size_t i = 0; i < kResourceCount; ++i) {
      if (users[i] > 0 && (tightest == kResourceCount || left[i] / users[i] < fair)) {
        tightest = i;
        fair = left[i] / users[i];
      }
    }
    for (Flow& flow : flows_) {
      if (flow.bytes_per_ns >= 0 || !has(flow.resources, tightest)) {
        continue;
      }
      flow.bytes_per_ns = fair;
      --unshared;
      for (std::size_t i = 0; i < kResourceCount; ++i) {
        if (has(flow.resources, i)) {
          left[i] = std::max(0.0, left[i] - fair);
          --users[i];
        }
      }
    }
  }
}

std::optional<TimeNs> FairShare::next_completion_ns() const {
  return next_completion_of(kEveryResource);
}

std::optional<TimeNs> FairShare::next_completion_ns(Resource resource) const {
  return next_completion_of(bit(resource));
}

// Of flows over any of them.
std::optional<TimeNs> FairShare::next_completion_of(ResourceSet resources) const {
  std::optional<TimeNs> next;
  for (const Flow& flow : flows_) {
    if ((flow.resources & resources) == 0) {
      continue;
    }
    const double wait_ns =
        flow.left_bytes <= kCrumbBytes ? 0 : std::ceil(flow.left_bytes / flow.bytes_per_ns);
    const TimeNs at_ns = now_ns_ + static_cast<TimeNs>(wait_ns);
    if (!next || at_ns < *next) {
      next = at_ns;
    }
  }
  return next;
}

std::optional<std::uint64_t> FairShare::take_completed(TimeNs now_ns) {
  advance(now_ns);
  const auto done = std::find_if(flows_.begin(), flows_.end(),
                                 [](const Flow& flow) { return flow.left_bytes <= kCrumbBytes; });
  if (done == flows_.end()) {
    return std::nullopt;
  }
  const std::uint64_t key = done->key;
  flows_.erase(done);
  share();
  return key;
}

}  // namespace spillway::sim
