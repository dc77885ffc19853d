// The program's streams, events and values: who comes behind whom. See driven_platform.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "platform/cuda/driven_program_thread.h"

namespace spillway::cuda {

std::optional<StreamId> DrivenPlatform::known_stream(CuStream stream) const {
  CuContext context = nullptr;
  if (stream == nullptr) {
    (void)driver_.context_get_current(&context);
  }
  return launches_.find(stream, context);
}

StreamId DrivenPlatform::stream_of(CuStream stream, Lock& lock) {
  if (const std::optional<StreamId> known = known_stream(stream)) {
    return *known;
  }
  lock.unlock();
  CuContext context = nullptr;
  unsigned flags = kCuStreamNonBlocking;
  (void)driver_.context_get_current(&context);
  if (stream != nullptr) {
    (void)driver_.stream_context(stream, &context);  // not the current one for everybody
  }
  (void)driver_.stream_flags(stream, &flags);
  lock.lock();
  if (const std::optional<StreamId> known = launches_.find(stream, context)) {
    return *known;
  }
  const bool blocking = stream != nullptr && flags == kCuStreamDefault;
  const std::optional<StreamId> added = launches_.add_stream(stream, context, blocking);
  if (!added && !std::exchange(broken_, true)) {
    failures_.fatal(
        {ErrorCode::kUnsupported, fmt::format("more than {} streams at once", Gates::kStreams)});
  }
  return added.value_or(0);
}

// A context's null stream waits for all blocking streams of its context, and they for it: that is
// what the device does with whatever is about to be put on one of them.
void DrivenPlatform::order_with_null_stream(StreamId id) {
  ++launches_.stream(id).operations;
  const std::optional<StreamId> null_id = launches_.find(nullptr, launches_.stream(id).context);
  if (!null_id) {
    return;
  }
  DeviceLaunches::Stream& null_stream = launches_.stream(*null_id);
  const auto wait = [this](StreamId who, StreamId whom) {
    const SignalId signal = engine_.create_signal();
    ++launches_.stream(whom).orders_others;
    engine_.record_signal(signal, whom);
    engine_.wait_for_signal(signal, who);
  };
  DeviceLaunches::Stream& mine = launches_.stream(id);
  if (id != *null_id) {
    if (mine.blocking && mine.null_waited < null_stream.operations) {
      mine.null_waited = null_stream.operations;
      wait(id, *null_id);
    }
    return;
  }
  for (StreamId other = 0; other < launches_.streams(); ++other) {
    DeviceLaunches::Stream& stream = launches_.stream(other);
    if (stream.live && stream.blocking && stream.context == null_stream.context &&
        stream.waited_by_null < stream.operations) {
      stream.waited_by_null = stream.operations;
      wait(id, other);
    }
  }
}

// Of a stream on which nothing of ours has been: whether what is put on it now waits for one on
// which something has, as the null stream for blocking streams, and they for it.
bool DrivenPlatform::comes_behind_others(CuStream stream, Lock& lock) const {
  if (stream == nullptr) {
    return launches_.streams() > 0;
  }
  if (!known_stream(nullptr)) {
    return false;
  }
  lock.unlock();
  unsigned flags = kCuStreamNonBlocking;
  (void)driver_.stream_flags(stream, &flags);
  lock.lock();
  return flags == kCuStreamDefault;
}

std::mutex& DrivenPlatform::order_of(StreamId id) {
  DeviceLaunches::Stream& stream = launches_.stream(id);
  return stream.blocking || stream.handle == nullptr ? legacy_order_ : stream.issuing;
}

std::unique_lock<std::mutex> DrivenPlatform::in_order(CuStream stream) {
  if (calls_.is_open()) {
    return {};
  }
  Lock lock(mutex_);
  const CuStream meant = canonical(stream);
  std::mutex* order = nullptr;
  if (const std::optional<StreamId> id = known_stream(meant)) {
    order = &order_of(*id);
  } else if (comes_behind_others(meant, lock)) {
    order = &legacy_order_;
  }
  lock.unlock();
  return order != nullptr ? std::unique_lock(*order) : std::unique_lock<std::mutex>();
}

// While it is quiet everything before it and after it is admitted: nobody need hear of an order.
void DrivenPlatform::recorded(CuEvent event, CuStream stream) {
  if (calls_.is_open()) {
    return;
  }
  Lock lock(mutex_);
  std::optional<StreamId> id = known_stream(canonical(stream));
  if (!id && comes_behind_others(canonical(stream), lock)) {
    id = stream_of(canonical(stream), lock);
  }
  if (!id && !events_.contains(event)) {
    return;  // nothing of ours has come before
  }
  Recordings& recordings = events_[event];
  recordings.before = std::exchange(recordings.last, std::nullopt);
  if (!id) {
    return;
  }
  order_with_null_stream(*id);
  recordings.last = engine_.create_signal();
  engine_.record_signal(*recordings.last, *id);
}

void DrivenPlatform::not_recorded(CuEvent event) {
  if (calls_.is_open()) {
    return;
  }
  const Lock lock(mutex_);
  if (const auto found = events_.find(event); found != events_.end()) {
    found->second.last = found->second.before;
  }
}

void DrivenPlatform::waits_for(CuEvent event, CuStream stream) {
  if (calls_.is_open()) {
    return;
  }
  Lock lock(mutex_);
  const auto recording = events_.find(event);
  const std::optional<SignalId> last =
      recording == events_.end() ? std::nullopt : recording->second.last;
  if (!last) {
    return;
  }
  const SignalId signal = *last;
  const StreamId id = stream_of(canonical(stream), lock);
  order_with_null_stream(id);
  engine_.wait_for_signal(signal, id);
}

// Events' handles are addresses of structures: none is odd.
CuEvent DrivenPlatform::value_event(CuAddress word) {
  return reinterpret_cast<CuEvent>(word | 1U);  // NOLINT(performance-no-int-to-ptr)
}

void DrivenPlatform::wrote_value(CuAddress word, CuStream stream) {
  recorded(value_event(word), stream);
}

void DrivenPlatform::waits_for_value(CuAddress word, CuStream stream) {
  waits_for(value_event(word), stream);
}

// Its streams' handles, and its own, may come again.
void DrivenPlatform::context_ended(CuContext context) {
  const Lock lock(mutex_);
  leave_quiet();
  launches_.lose(context);
  for (StreamId id = 0; id < launches_.streams(); ++id) {
    const DeviceLaunches::Stream& stream = launches_.stream(id);
    if (stream.live && stream.context == context) {
      recomputing_.end(id);  // with the memory of the context
      launches_.forget(id);
    }
  }
  take_ends();
}

bool DrivenPlatform::is_busy(CuContext context) const {
  const Lock lock(mutex_);
  return launches_.any_of(context) ||
         std::any_of(quiet_.streams.begin(), quiet_.streams.end(),
                     [&](StreamId id) { return launches_.context_of(id) == context; });
}

void DrivenPlatform::destroyed(CuStream stream) {
  Lock lock(mutex_);
  if (const std::optional<StreamId> id = known_stream(canonical(stream))) {
    if (std::find(quiet_.streams.begin(), quiet_.streams.end(), *id) != quiet_.streams.end()) {
      leave_quiet();
    }
    remake_all(*id, lock);
    put_ticket(*id, lock);
    launches_.forget(*id);
  }
}

}  // namespace spillway::cuda
