// The program's streams, events and values: who comes behind whom. See program_streams.h.
#include "platform/cuda/program/program_streams.h"

#include <fmt/format.h>

#include <algorithm>

#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"

namespace spillway::cuda {

void ProgramStreams::before_wait(std::optional<CuStream> /*stream*/) {
  const Lock lock(state_);
  parts_.markers.put_markers();
}

void ProgramStreams::after_wait(std::optional<CuStream> /*stream*/) {
  const Lock lock(state_);
  parts_.markers.take_ends();
}

TimeNs ProgramStreams::last_end_ns() const {
  const Lock lock(state_);
  return state_.launches.ended_ns();
}

std::unique_lock<Mutex> ProgramStreams::in_order(CuStream stream) {
  if (state_.bypass.calls().is_open()) {
    return {};
  }
  Lock lock(state_);
  const CuStream meant = canonical(stream);
  Mutex* order = nullptr;
  if (const std::optional<StreamId> id = known_stream(meant)) {
    order = &state_.order.mutex_of(*id);
  } else if (comes_behind_others(meant)) {
    order = &state_.order.legacy();
  }
  lock.unlock();
  return order != nullptr ? std::unique_lock(*order) : std::unique_lock<Mutex>();
}

// In bypass mode everything before it and after it is admitted: nobody need hear of an order.
void ProgramStreams::recorded(CuEvent event, CuStream stream) {
  if (state_.bypass.calls().is_open()) {
    return;
  }
  const Lock lock(state_);
  std::optional<StreamId> id = known_stream(canonical(stream));
  if (!id && comes_behind_others(canonical(stream))) {
    id = stream_of(canonical(stream));
  }
  if (id || state_.order.knows(event)) {
    state_.order.record(event, id);
  }
}

void ProgramStreams::not_recorded(CuEvent event) {
  if (state_.bypass.calls().is_open()) {
    return;
  }
  const Lock lock(state_);
  state_.order.take_back(event);
}

void ProgramStreams::waits_for(CuEvent event, CuStream stream) {
  if (state_.bypass.calls().is_open()) {
    return;
  }
  const Lock lock(state_);
  if (const std::optional<SignalId> signal = state_.order.signal_of(event)) {
    state_.order.wait(stream_of(canonical(stream)), *signal);
  }
}

void ProgramStreams::wrote_value(CuAddress word, CuStream stream) {
  recorded(StreamOrder::event_of(word), stream);
}

// It may wait for what only comes later: nothing more than its own memory must wait with it, so
// what stands for the calls before it gets its completion marker now.
void ProgramStreams::will_wait_for_value() {
  const Lock lock(state_);
  state_.bypass.leave();
  waits_for_values_ = true;
  state_.bypass.stay_out();
  parts_.markers.put_markers();
}

void ProgramStreams::waits_for_value(CuAddress word, CuStream stream) {
  waits_for(StreamOrder::event_of(word), stream);
}

void ProgramStreams::watch_captures(const std::atomic<int>& under_way) {
  const Lock lock(state_);
  captures_ = &under_way;
}

// What still has to be put on streams must not be captured, what stands for calls of which nobody
// was told least of all: so there is nothing of that kind until the capture has ended.
void ProgramStreams::capture_begins() {
  {
    const Lock lock(state_);
    state_.bypass.leave();
    parts_.recompute.remake_all(std::nullopt);
  }
  before_wait(std::nullopt);
}

// Its streams' handles, and its own, may come again.
void ProgramStreams::context_ended(CuContext context) {
  const Lock lock(state_);
  state_.bypass.leave();
  state_.launches.lose(context);
  for (StreamId id = 0; id < state_.launches.streams(); ++id) {
    const DeviceLaunches::Stream& stream = state_.launches.stream(id);
    if (stream.live && stream.context == context) {
      state_.recomputing.end(id);  // with the memory of the context
      state_.launches.forget(id);
    }
  }
  parts_.markers.take_ends();
}

bool ProgramStreams::is_busy(CuContext context) const {
  const Lock lock(state_);
  return state_.launches.any_of(context) ||
         std::any_of(state_.bypass.streams().begin(), state_.bypass.streams().end(),
                     [&](StreamId id) SPILLWAY_REQUIRES(platform_lock) {
                       return state_.launches.context_of(id) == context;
                     });
}

void ProgramStreams::destroyed(CuStream stream) {
  const Lock lock(state_);
  if (const std::optional<StreamId> id = known_stream(canonical(stream))) {
    if (state_.bypass.has_calls_on(*id)) {
      state_.bypass.leave();
    }
    parts_.recompute.remake_all(*id);
    parts_.markers.put_marker(*id);
    state_.launches.forget(*id);
  }
}

std::optional<StreamId> ProgramStreams::known_stream(CuStream stream) const {
  CuContext context = nullptr;
  if (stream == nullptr) {
    (void)state_.driver.context_get_current(&context);
  }
  return state_.launches.find(stream, context);
}

StreamId ProgramStreams::stream_of(CuStream stream) {
  if (const std::optional<StreamId> known = known_stream(stream)) {
    return *known;
  }
  CuContext context = nullptr;
  unsigned flags = kCuStreamNonBlocking;
  state_.without_lock([&] {
    (void)state_.driver.context_get_current(&context);
    if (stream != nullptr) {
      (void)state_.driver.stream_context(stream, &context);  // not the current one for everybody
    }
    (void)state_.driver.stream_flags(stream, &flags);
  });
  if (const std::optional<StreamId> known = state_.launches.find(stream, context)) {
    return *known;
  }
  const bool blocking = stream != nullptr && flags == kCuStreamDefault;
  const std::optional<StreamId> added = state_.launches.add_stream(stream, context, blocking);
  if (!added) {
    state_.fail({ErrorCode::kUnsupported,
                 fmt::format("more than {} streams at once", StreamWaits::kStreams)});
  }
  return added.value_or(0);
}

// Of a stream on which nothing of ours has been: whether what is put on it now waits for one on
// which something has, as the null stream for blocking streams, and they for it.
bool ProgramStreams::comes_behind_others(CuStream stream) const {
  if (stream == nullptr) {
    return state_.launches.streams() > 0;
  }
  if (!known_stream(nullptr)) {
    return false;
  }
  unsigned flags = kCuStreamNonBlocking;
  state_.without_lock([&] { (void)state_.driver.stream_flags(stream, &flags); });
  return flags == kCuStreamDefault;
}

}  // namespace spillway::cuda
