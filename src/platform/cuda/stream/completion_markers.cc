// Completion markers on the program's streams, what they tell, and whether a stream that tells
// nothing still runs. See completion_markers.h.
#include "platform/cuda/stream/completion_markers.h"

#include <mutex>

#include "platform/cuda/driver/in_context.h"
#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"

namespace spillway::cuda {

// Behind it each stream has all of its completion markers, also those that other threads were about
// to put: one that came to its stream behind a stream wait, or behind a wait for what a stream wait
// holds up, would not tell of the memory that the stream wait waits for; one that came there when
// the stream is captured already would be part of the graph.
void CompletionMarkers::put_markers() {
  for (StreamId id = 0; id < state_.launches.streams(); ++id) {
    if (state_.launches.marker_due(id) != 0 || state_.launches.marker_under_way(id)) {
      put_marker(id);
    }
  }
}

// In the order of their numbers: the word only grows.
void CompletionMarkers::put_marker(StreamId id) {
  DeviceLaunches::Stream& stream = state_.launches.stream(id);
  std::unique_lock in_order(stream.markers, std::defer_lock);
  state_.without_lock([&] { in_order.lock(); });
  const std::uint64_t number = state_.launches.marker_due(id);
  if (number == 0) {
    return;
  }
  stream.marked = number;
  ++stream.markers_put;
  state_.order.put_on(id);
  const CuStream handle = stream.handle;
  const CuContext context = stream.context;
  const CuResult result = state_.call_in(context, [&] {
    return state_.queue->times().of(WorkTimes::What::kMarker, [&] {
      return state_.stream_waits.put_marker(id, number, handle);
    });
  });
  stream.marker_put = number;
  if (result != CuResult::kSuccess) {
    stream_failed(id, context, "cuStreamWriteValue64", result);
  }
}

// Where nothing ends, a context may have died (a kernel has failed): nothing on it tells of that,
// and the program, whose thread is held here, cannot ask. A question puts nothing on the stream, so
// it neither orders anything nor can come too late; but a stream that is captured must not be
// asked.
void CompletionMarkers::ask_whether_alive() {
  for (StreamId id = 0; id < state_.launches.streams(); ++id) {
    ask_whether_alive(id);
  }
  take_ends();
}

void CompletionMarkers::ask_whether_alive(StreamId id) {
  DeviceLaunches::Stream& stream = state_.launches.stream(id);
  if (!stream.live || stream.lost) {
    return;
  }
  std::unique_lock in_order(stream.markers, std::defer_lock);
  state_.without_lock([&] { in_order.lock(); });
  if (!stream.live || stream.lost || parts_.streams.is_capturing()) {
    return;
  }
  const CuStream handle = stream.handle;
  const CuContext context = stream.context;
  stream.asked = true;  // who begins to capture it waits for the answer
  const CuResult result =
      state_.call_in(context, [&] { return state_.driver.stream_query(handle); });
  stream.asked = false;
  if (kernel_has_failed(result)) {
    state_.launches.lose(context);
  }
}

// On a context that is dead nothing runs any more, and the program hears of it from the driver.
void CompletionMarkers::stream_failed(StreamId id, CuContext context, std::string_view symbol,
                                      CuResult result) {
  if (kernel_has_failed(result)) {
    state_.launches.lose(context);
    return;
  }
  if (context_is_lost(result)) {
    state_.launches.lose(id);
    return;
  }
  state_.fail({ErrorCode::kUnsupported, error_text(state_.driver, symbol, result)});
}

void CompletionMarkers::take_ends() {
  if (state_.launches.take_ends()) {
    parts_.waits.follow_budget();
    if (const Status looked = state_.recomputing.look(); !looked) {
      state_.fail(looked.error());
    }
    state_.changed.notify_all();
  }
}

}  // namespace spillway::cuda
