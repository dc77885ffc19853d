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

StreamId DrivenPlatform::stream_of(CuStream stream) {
  if (const std::optional<StreamId> known = known_stream(stream)) {
    return *known;
  }
  mutex_.unlock();
  CuContext context = nullptr;
  unsigned flags = kCuStreamNonBlocking;
  (void)driver_.context_get_current(&context);
  if (stream != nullptr) {
    (void)driver_.stream_context(stream, &context);  // not the current one for everybody
  }
  (void)driver_.stream_flags(stream, &flags);
  mutex_.lock();
  if (const std::optional<StreamId> known = launches_.find(stream, context)) {
    return *known;
  }
  const bool blocking = stream != nullptr && flags == kCuStreamDefault;
  const std::optional<StreamId> added = launches_.add_stream(stream, context, blocking);
  if (!added && !std::exchange(broken_, true)) {
    failures_.fatal({ErrorCode::kUnsupported,
                     fmt::format("more than {} streams at once", StreamWaits::kStreams)});
  }
  return added.value_or(0);
}

// Of a stream on which nothing of ours has been: whether what is put on it now waits for one on
// which something has, as the null stream for blocking streams, and they for it.
bool DrivenPlatform::comes_behind_others(CuStream stream) const {
  if (stream == nullptr) {
    return launches_.streams() > 0;
  }
  if (!known_stream(nullptr)) {
    return false;
  }
  mutex_.unlock();
  unsigned flags = kCuStreamNonBlocking;
  (void)driver_.stream_flags(stream, &flags);
  mutex_.lock();
  return flags == kCuStreamDefault;
}

std::unique_lock<Mutex> DrivenPlatform::in_order(CuStream stream) {
  if (bypass_.calls().is_open()) {
    return {};
  }
  Lock lock(mutex_);
  const CuStream meant = canonical(stream);
  Mutex* order = nullptr;
  if (const std::optional<StreamId> id = known_stream(meant)) {
    order = &order_.mutex_of(*id);
  } else if (comes_behind_others(meant)) {
    order = &order_.legacy();
  }
  lock.unlock();
  return order != nullptr ? std::unique_lock(*order) : std::unique_lock<Mutex>();
}

// In bypass mode everything before it and after it is admitted: nobody need hear of an order.
void DrivenPlatform::recorded(CuEvent event, CuStream stream) {
  if (bypass_.calls().is_open()) {
    return;
  }
  Lock lock(mutex_);
  std::optional<StreamId> id = known_stream(canonical(stream));
  if (!id && comes_behind_others(canonical(stream))) {
    id = stream_of(canonical(stream));
  }
  if (id || order_.knows(event)) {
    order_.record(event, id);
  }
}

void DrivenPlatform::not_recorded(CuEvent event) {
  if (bypass_.calls().is_open()) {
    return;
  }
  const Lock lock(mutex_);
  order_.take_back(event);
}

void DrivenPlatform::waits_for(CuEvent event, CuStream stream) {
  if (bypass_.calls().is_open()) {
    return;
  }
  Lock lock(mutex_);
  if (const std::optional<SignalId> signal = order_.signal_of(event)) {
    order_.wait(stream_of(canonical(stream)), *signal);
  }
}

void DrivenPlatform::wrote_value(CuAddress word, CuStream stream) {
  recorded(StreamOrder::event_of(word), stream);
}

void DrivenPlatform::waits_for_value(CuAddress word, CuStream stream) {
  waits_for(StreamOrder::event_of(word), stream);
}

// Its streams' handles, and its own, may come again.
void DrivenPlatform::context_ended(CuContext context) {
  const Lock lock(mutex_);
  bypass_.leave();
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
         std::any_of(bypass_.streams().begin(), bypass_.streams().end(),
                     [&](StreamId id)
                         SPILLWAY_REQUIRES(mutex_) { return launches_.context_of(id) == context; });
}

void DrivenPlatform::destroyed(CuStream stream) {
  Lock lock(mutex_);
  if (const std::optional<StreamId> id = known_stream(canonical(stream))) {
    if (bypass_.has_calls_on(*id)) {
      bypass_.leave();
    }
    remake_all(*id);
    put_marker(*id);
    launches_.forget(*id);
  }
}

}  // namespace spillway::cuda
