// See launch_order.h.
#include "engine/launches/launch_order.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/broken.h"

namespace spillway {

LaunchOrder::Stream& LaunchOrder::stream(StreamId id) {
  if (id >= streams_.size()) {
    streams_.resize(id + std::size_t{1});
  }
  return streams_[id];
}

void LaunchOrder::set_window(std::uint32_t launches_per_stream) {
  const std::uint32_t wanted = std::max(launches_per_stream, 1U);
  if (std::exchange(launches_per_stream_, wanted) >= wanted) {
    return;
  }
  for (StreamId id = 0; id < streams_.size(); ++id) {
    advance(id);
  }
}

void LaunchOrder::issue(std::uint32_t slot, const Launch& launch) {
  if (launch.stream == kNoStream) {
    ready_.emplace(launch.seq, slot);
    return;
  }
  push(launch.stream, {.step = Step::kLaunch, .what = slot, .seq = launch.seq});
}

SignalId LaunchOrder::create_signal() {
  signals_.emplace(++last_signal_, std::vector<StreamId>());
  return last_signal_;
}

void LaunchOrder::record(SignalId signal, StreamId stream) {
  push(stream, {.step = Step::kRecord, .what = signal});
}

void LaunchOrder::wait(SignalId signal, StreamId stream) {
  push(stream, {.step = Step::kWait, .what = signal});
}

void LaunchOrder::push(StreamId id, Item item) {
  assert(id != kNoStream);  // nothing comes before it or behind it
  stream(id).items.push_back(item);
  advance(id);
}

// Those that stood at it go on, and may give others in turn. A stream that goes on stands nowhere
// meanwhile, so this goes no deeper than there are streams.
void LaunchOrder::give(SignalId signal) {
  const auto found = signals_.find(signal);
  if (found == signals_.end()) {
    return;
  }
  const std::vector<StreamId> waiting = std::move(found->second);
  signals_.erase(found);
  for (const StreamId id : waiting) {
    streams_[id].held = false;
    --held_streams_;
    advance(id);
  }
}

// Passes what can be passed at the head of the stream.
void LaunchOrder::advance(StreamId id) {
  while (true) {
    Stream& at = stream(id);
    if (at.items.empty() || at.offered || at.held) {
      return;
    }
    const Item item = at.items.front();
    switch (item.step) {
      case Step::kLaunch:
        if (at.admitted < launches_per_stream_) {
          at.offered = true;
          ready_.emplace(item.seq, static_cast<std::uint32_t>(item.what));
        }
        return;
      case Step::kRecord:
        at.items.pop_front();
        give(item.what);
        break;
      case Step::kWait:
        if (const auto signal = signals_.find(item.what); signal != signals_.end()) {
          signal->second.push_back(id);
          at.items.pop_front();
          at.held = true;
          ++held_streams_;
          return;
        }
        at.items.pop_front();
        break;
    }
  }
}

void LaunchOrder::admit_next(const Launch& launch) {
  assert(!ready_.empty());
  ready_.pop();
  if (launch.stream == kNoStream) {
    return;
  }
  Stream& at = streams_[launch.stream];
  assert(at.offered && at.items.front().step == Step::kLaunch);
  at.items.pop_front();
  at.offered = false;
  ++at.admitted;
  advance(launch.stream);
}

void LaunchOrder::ended(StreamId stream) {
  if (stream == kNoStream) {
    return;
  }
  assert(streams_[stream].admitted > 0);
  --streams_[stream].admitted;
  advance(stream);
}

Status LaunchOrder::check() const {
  std::vector<std::uint32_t> standing(streams_.size());  // signals that each stream stands at
  for (const auto& [signal, waiting] : signals_) {
    for (const StreamId id : waiting) {
      ++standing[id];
    }
  }
  std::uint32_t held = 0;
  std::size_t offered = 0;
  for (StreamId id = 0; id < streams_.size(); ++id) {
    const Stream& at = streams_[id];
    held += at.held ? 1U : 0U;
    offered += at.offered ? 1U : 0U;
    if (standing[id] != (at.held ? 1U : 0U)) {
      return broken("a stream is held by no signal, or stands at one that does not hold it");
    }
    if (at.held || at.items.empty()) {
      if (at.offered) {
        return broken("a stream offers a launch that is not its next");
      }
      continue;
    }
    const bool launch = at.items.front().step == Step::kLaunch;
    if (at.offered ? !launch : !launch || at.admitted < launches_per_stream_) {
      return broken("a stream could go on and does not");
    }
  }
  return held == held_streams_ && offered <= ready_.size()
             ? Status()
             : broken("held streams, or launches on offer, are counted wrongly");
}

}  // namespace spillway
