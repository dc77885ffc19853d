// The program's streams, events and values, and its waits for them. Layer: platform, cuda.
// docs/cuda.md. All functions are thread-safe, except where one says otherwise.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "base/mutex.h"
#include "engine/engine.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/platform_part.h"

namespace spillway::cuda {

class ProgramStreams : public PlatformPart {
 public:
  ProgramStreams(PlatformState& state, PlatformParts& parts) : PlatformPart(state, parts) {}

  // Before the program's thread calls something that waits for its device, and after it has
  // waited: for this stream, or for everything (nullopt).
  void before_wait(std::optional<CuStream> stream);
  void after_wait(std::optional<CuStream> stream);
  // A lock for work that is announced here and put on the stream by two calls: while it is held, no
  // other thread puts work on this stream or on one that the device orders with it. Not between
  // before_launch and after_launch, which hold it. Empty in bypass mode.
  [[nodiscard]] std::unique_lock<Mutex> in_order(CuStream stream);
  // When the last end of a launch was seen, on the clock of now_ns(). after_wait looks for more.
  [[nodiscard]] TimeNs last_end_ns() const;
  // The program has recorded an event, or a stream waits for one.
  void recorded(CuEvent event, CuStream stream);
  // The driver has refused the last recording: the one before it counts.
  void not_recorded(CuEvent event);
  void waits_for(CuEvent event, CuStream stream);
  // The same for a word in memory that one stream writes and another waits for: the wait is taken
  // to end with the last write that the program has issued. `will_wait_for_value` comes first.
  void wrote_value(CuAddress word, CuStream stream);
  void will_wait_for_value();
  void waits_for_value(CuAddress word, CuStream stream);
  // `under_way` counts the stream captures that are open from now on. Work on captured streams does
  // not run and is not announced.
  void watch_captures(const std::atomic<int>& under_way);
  // The program is about to capture a stream, which has been counted.
  void capture_begins();
  // A context of the program has ended, and with it what stood on its streams.
  void context_ended(CuContext context);
  // True if completion markers have not covered all launches on the context's streams.
  [[nodiscard]] bool is_busy(CuContext context) const;
  // The program is about to destroy a stream.
  void destroyed(CuStream stream);

  // --- For other parts

  [[nodiscard]] bool is_capturing() const SPILLWAY_REQUIRES(platform_lock) {
    return captures_ != nullptr && *captures_ > 0;
  }
  // Whether a stream of the program has ever waited for a value.
  [[nodiscard]] bool waits_for_values() const SPILLWAY_REQUIRES(platform_lock) {
    return waits_for_values_;
  }
  // nullopt: nothing of ours has been on it.
  [[nodiscard]] std::optional<StreamId> known_stream(CuStream stream) const
      SPILLWAY_REQUIRES(platform_lock);
  // Lets go, to ask the driver about one that is new.
  [[nodiscard]] StreamId stream_of(CuStream stream) SPILLWAY_REQUIRES(platform_lock);

 private:
  [[nodiscard]] bool comes_behind_others(CuStream stream) const SPILLWAY_REQUIRES(platform_lock);

  const std::atomic<int>* captures_ SPILLWAY_GUARDED_BY(platform_lock) = nullptr;  // under way
  bool waits_for_values_ SPILLWAY_GUARDED_BY(platform_lock) = false;
};

}  // namespace spillway::cuda
