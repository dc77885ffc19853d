// Vector clocks, and signals that are waited for before they are recorded. See program_order.h.
#include "platform/sim/program_order.h"

#include <algorithm>
#include <bit>

namespace spillway::sim {
namespace {

void join(std::vector<std::uint64_t>& clock, const std::vector<std::uint64_t>& other) {
  for (std::size_t i = 0; i < clock.size(); ++i) {
    clock[i] = std::max(clock[i], other[i]);
  }
}

}  // namespace

ProgramOrder::ProgramOrder(std::uint32_t streams)
    : streams_(streams, Stream{.before = Clock(streams)}) {}

ProgramOrder::Point ProgramOrder::issue(StreamId stream) {
  return stream == kNoStream ? Point{}
                             : Point{.stream = stream, .at = ++streams_[stream].before[stream]};
}

bool ProgramOrder::is_before(const Point& point, StreamId stream) const {
  return point.stream != kNoStream && stream != kNoStream &&
         streams_[stream].before[point.stream] >= point.at;
}

std::optional<std::uint64_t> ProgramOrder::record_for(StreamId from, StreamId to) {
  if (!may_wait(to, streams_[from].behind)) {
    return std::nullopt;
  }
  record({.signal = ++signals_, .stream = from});
  return signals_;
}

std::optional<ProgramOrder::Link> ProgramOrder::random_wait(Rng& rng) {
  const auto stream = static_cast<StreamId>(rng.below(streams_.size()));
  if (rng.chance(0.5) && !recorded_.empty()) {
    const Recorded& recorded = recorded_[rng.below(recorded_.size())];
    return may_wait(stream, recorded.behind)
               ? std::optional(Link{.signal = recorded.signal, .stream = stream})
               : std::nullopt;
  }
  const std::size_t slot = rng.below(kOpenMost);
  if (stream == 0) {
    return std::nullopt;
  }
  if ((open_ >> slot & 1U) == 0) {
    slots_[slot] = {.signal = ++signals_, .waiting = {}};
    open_ |= Signals{1} << slot;
  }
  return Link{.signal = slots_[slot].signal, .stream = stream};
}

std::optional<ProgramOrder::Link> ProgramOrder::record_one(Rng& rng) {
  if (open_ == 0) {
    return std::nullopt;
  }
  const auto slot = static_cast<std::size_t>(std::countr_zero(open_));
  auto stream = static_cast<StreamId>(rng.below(streams_.size()));
  if ((streams_[stream].behind >> slot & 1U) != 0) {
    stream = 0;
  }
  const Link link{.signal = slots_[slot].signal, .stream = stream};
  record(link);
  return link;
}

void ProgramOrder::wait(const Link& link) {
  Stream& stream = streams_[link.stream];
  for (std::size_t slot = 0; slot < kOpenMost; ++slot) {
    if ((open_ >> slot & 1U) != 0 && slots_[slot].signal == link.signal) {
      slots_[slot].waiting.push_back(link.stream);
      stream.behind |= Signals{1} << slot;
      return;
    }
  }
  for (const Recorded& recorded : recorded_) {
    if (recorded.signal == link.signal) {
      join(stream.before, recorded.clock);
      stream.behind |= recorded.behind;
    }
  }
}

// Those that waited for it before stand behind what the recording stands behind.
void ProgramOrder::record(const Link& link) {
  const Stream from = streams_[link.stream];
  for (std::size_t slot = 0; slot < kOpenMost; ++slot) {
    const Signals bit = Signals{1} << slot;
    if ((open_ & bit) == 0 || slots_[slot].signal != link.signal) {
      continue;
    }
    open_ &= ~bit;
    for (const StreamId waiting : slots_[slot].waiting) {
      join(streams_[waiting].before, from.before);
    }
    const auto pass_on = [&](Signals& behind) {
      behind = (behind & bit) != 0 ? (behind & ~bit) | from.behind : behind;
    };
    for (Stream& stream : streams_) {
      pass_on(stream.behind);
    }
    for (Recorded& recorded : recorded_) {
      pass_on(recorded.behind);
    }
  }
  const Recorded made{.signal = link.signal, .clock = from.before, .behind = from.behind};
  if (recorded_.size() < kRecordedMost) {
    recorded_.push_back(made);
  } else {
    recorded_[link.signal % kRecordedMost] = made;
  }
}

}  // namespace spillway::sim
