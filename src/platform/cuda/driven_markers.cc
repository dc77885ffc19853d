// Completion markers on the program's streams, what they tell, and whether a stream that tells
// nothing still runs. See driven_platform.h.
#include <utility>

#include "platform/cuda/driven_program_thread.h"

namespace spillway::cuda {

// Behind it each stream has all of its completion markers, also those that other threads were about
// to put: one that came to its stream behind a stream wait, or behind a wait for what a stream wait
// holds up, would not tell of the memory that the stream wait waits for; one that came there when
// the stream is captured already would be part of the graph.
void DrivenPlatform::put_markers() {
  for (StreamId id = 0; id < launches_.streams(); ++id) {
    if (launches_.marker_due(id) != 0 || launches_.marker_under_way(id)) {
      put_marker(id);
    }
  }
}

// In the order of their numbers: the word only grows.
void DrivenPlatform::put_marker(StreamId id) {
  DeviceLaunches::Stream& stream = launches_.stream(id);
  mutex_.unlock();
  const MutexLock in_order(stream.markers);
  mutex_.lock();
  const std::uint64_t number = launches_.marker_due(id);
  if (number == 0) {
    return;
  }
  stream.marked = number;
  ++stream.markers_put;
  order_.put_on(id);
  const CuStream handle = stream.handle;
  const CuContext context = stream.context;
  mutex_.unlock();
  const CuResult result = queue_->times().of(WorkTimes::What::kMarker, [&] {
    return in_context(context, [&] { return stream_waits_.put_marker(id, number, handle); });
  });
  mutex_.lock();
  stream.marker_put = number;
  if (result != CuResult::kSuccess) {
    stream_failed(id, context, "cuStreamWriteValue64", result);
  }
}

// Where nothing ends, a context may have died (a kernel has failed): nothing on it tells of that,
// and the program, whose thread is held here, cannot ask. A question puts nothing on the stream, so
// it neither orders anything nor can come too late; but a stream that is captured must not be
// asked.
void DrivenPlatform::ask_whether_alive() {
  for (StreamId id = 0; id < launches_.streams(); ++id) {
    ask_whether_alive(id);
  }
  take_ends();
}

void DrivenPlatform::ask_whether_alive(StreamId id) {
  DeviceLaunches::Stream& stream = launches_.stream(id);
  if (!stream.live || stream.lost) {
    return;
  }
  mutex_.unlock();
  const MutexLock in_order(stream.markers);
  mutex_.lock();
  if (!stream.live || stream.lost || (captures_ != nullptr && *captures_ > 0)) {
    return;
  }
  const CuStream handle = stream.handle;
  const CuContext context = stream.context;
  stream.asked = true;  // who begins to capture it waits for the answer
  mutex_.unlock();
  const CuResult result = in_context(context, [&] { return driver_.stream_query(handle); });
  mutex_.lock();
  stream.asked = false;
  if (kernel_has_failed(result)) {
    launches_.lose(context);
  }
}

// The driver thread's. A kernel of the program that fails takes our context with it; the program
// hears of it from the driver, as it would without us. So nobody is told where all that it has is
// lost as well; otherwise it would go on without its memory.
void DrivenPlatform::broken(const std::optional<Error>& unreported) {
  Lock lock(mutex_);
  bool all_lost = launches_.streams() > 0;
  for (StreamId id = 0; unreported && id < launches_.streams(); ++id) {
    ask_whether_alive(id);
    all_lost &= !launches_.stream(id).live || launches_.stream(id).lost;
  }
  broken_ = true;
  changed_.notify_all();
  if (unreported && !all_lost) {
    failures_.fatal(*unreported);
  }
}

// On a context that is dead nothing runs any more, and the program hears of it from the driver.
void DrivenPlatform::stream_failed(StreamId id, CuContext context, std::string_view symbol,
                                   CuResult result) {
  if (kernel_has_failed(result)) {
    launches_.lose(context);
    return;
  }
  if (context_is_lost(result)) {
    launches_.lose(id);
    return;
  }
  if (!std::exchange(broken_, true)) {
    failures_.fatal({ErrorCode::kUnsupported, error_text(driver_, symbol, result)});
  }
}

void DrivenPlatform::take_ends() {
  if (launches_.take_ends()) {
    follow_budget();
    if (const Status looked = recomputing_.look(); !looked && !std::exchange(broken_, true)) {
      failures_.fatal(looked.error());
    }
    changed_.notify_all();
  }
}

void DrivenPlatform::before_wait(std::optional<CuStream> /*stream*/) {
  Lock lock(mutex_);
  put_markers();
}

void DrivenPlatform::after_wait(std::optional<CuStream> /*stream*/) {
  const Lock lock(mutex_);
  take_ends();
}

}  // namespace spillway::cuda
