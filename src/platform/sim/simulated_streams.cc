#include "platform/sim/simulated_streams.h"

#include <algorithm>
#include <utility>

#include "base/grown_at.h"

namespace spillway::sim {

void SimulatedStreams::add_launch(StreamId stream, std::uint32_t slot) {
  if (stream == kNoStream) {
    unordered_.push_back(slot);
  } else {
    grown_at(streams_, stream).items.push_back({.step = Step::kLaunch, .what = slot});
  }
}

void SimulatedStreams::take_back_launch(StreamId stream) {
  if (stream == kNoStream) {
    unordered_.pop_back();
  } else {
    streams_[stream].items.pop_back();
  }
}

void SimulatedStreams::add_signal(SignalId signal) {
  signals_.emplace(signal, std::vector<StreamId>());
}

void SimulatedStreams::add_record(SignalId signal, StreamId stream) {
  grown_at(streams_, stream).items.push_back({.step = Step::kRecord, .what = signal});
}

void SimulatedStreams::add_wait(SignalId signal, StreamId stream) {
  grown_at(streams_, stream).items.push_back({.step = Step::kWait, .what = signal});
}

void SimulatedStreams::advance(StreamId id) {
  if (id == kNoStream) {
    return;
  }
  while (!streams_[id].items.empty() && !streams_[id].held) {
    const Item item = streams_[id].items.front();
    if (item.step == Step::kLaunch) {
      reached_(static_cast<std::uint32_t>(item.what));
      return;
    }
    streams_[id].items.pop_front();
    const auto signal = signals_.find(item.what);
    if (signal == signals_.end()) {
      continue;
    }
    if (item.step == Step::kWait) {
      streams_[id].held = true;
      signal->second.push_back(id);
      return;
    }
    const std::vector<StreamId> waiting = std::move(signal->second);
    signals_.erase(signal);
    for (const StreamId other : waiting) {
      streams_[other].held = false;
      streams_[other].free_ns = std::max(streams_[other].free_ns, clock_.now_ns());
      advance(other);
    }
  }
}

bool SimulatedStreams::is_at_head(StreamId id, std::uint32_t slot) const {
  if (id == kNoStream) {
    return true;
  }
  const Stream& stream = streams_[id];
  return !stream.held && !stream.items.empty() && stream.items.front().step == Step::kLaunch &&
         stream.items.front().what == slot;
}

TimeNs SimulatedStreams::free_ns(StreamId id) const {
  return id == kNoStream ? 0 : streams_[id].free_ns;
}

void SimulatedStreams::launch_ended(StreamId stream, std::uint32_t slot) {
  if (stream == kNoStream) {
    std::erase(unordered_, slot);
  } else {
    streams_[stream].items.pop_front();
    streams_[stream].free_ns = clock_.now_ns();
  }
}

}  // namespace spillway::sim
