// See stream_order.h.
#include "platform/cuda/stream/stream_order.h"

#include <utility>

namespace spillway::cuda {

void StreamOrder::put_behind(StreamId who, StreamId whom) {
  const SignalId signal = engine_->create_signal();
  ++launches_->stream(whom).orders_others;
  engine_->record_signal(signal, whom);
  engine_->wait_for_signal(signal, who);
}

void StreamOrder::put_on(StreamId id) {
  ++launches_->stream(id).operations;
  const std::optional<StreamId> null_id = launches_->find(nullptr, launches_->stream(id).context);
  if (!null_id) {
    return;
  }
  DeviceLaunches::Stream& null_stream = launches_->stream(*null_id);
  DeviceLaunches::Stream& mine = launches_->stream(id);
  if (id != *null_id) {
    if (mine.blocking && mine.null_waited < null_stream.operations) {
      mine.null_waited = null_stream.operations;
      put_behind(id, *null_id);
    }
    return;
  }
  for (StreamId other = 0; other < launches_->streams(); ++other) {
    DeviceLaunches::Stream& stream = launches_->stream(other);
    if (stream.live && stream.blocking && stream.context == null_stream.context &&
        stream.waited_by_null < stream.operations) {
      stream.waited_by_null = stream.operations;
      put_behind(id, other);
    }
  }
}

void StreamOrder::record(CuEvent event, std::optional<StreamId> id) {
  Recordings& recordings = events_[event];
  recordings.before = std::exchange(recordings.last, std::nullopt);
  if (!id) {
    return;
  }
  put_on(*id);
  recordings.last = engine_->create_signal();
  engine_->record_signal(*recordings.last, *id);
}

void StreamOrder::take_back(CuEvent event) {
  if (const auto found = events_.find(event); found != events_.end()) {
    found->second.last = found->second.before;
  }
}

std::optional<SignalId> StreamOrder::signal_of(CuEvent event) const {
  const auto found = events_.find(event);
  return found == events_.end() ? std::nullopt : found->second.last;
}

void StreamOrder::wait(StreamId id, SignalId signal) {
  put_on(id);
  engine_->wait_for_signal(signal, id);
}

Mutex& StreamOrder::mutex_of(StreamId id) {
  DeviceLaunches::Stream& stream = launches_->stream(id);
  return stream.blocking || stream.handle == nullptr ? legacy_ : stream.issuing;
}

}  // namespace spillway::cuda
