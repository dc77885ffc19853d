// Which stream comes behind which: by events and values that the program records and waits for, and
// by the rules of the null stream. Layer: platform, cuda. Reports each such order to the engine.
// With the platform's lock held, except for the mutexes that it hands out.
#pragma once

#include <optional>
#include <unordered_map>

#include "base/mutex.h"
#include "engine/engine.h"
#include "platform/cuda/stream/device_launches.h"

namespace spillway::cuda {

class StreamOrder {
 public:
  // Both must outlive it.
  StreamOrder(DeviceLaunches& launches, Engine& engine) : launches_(&launches), engine_(&engine) {}

  // A word in memory that streams write and wait for is taken for an event of this name. Events'
  // handles are addresses of structures: none is odd.
  [[nodiscard]] static CuEvent event_of(CuAddress word) {
    return reinterpret_cast<CuEvent>(word | 1U);  // NOLINT(performance-no-int-to-ptr)
  }

  // Something is about to be put on the stream. A context's null stream waits for all blocking
  // streams of its context, and they for it, as the device does.
  void put_on(StreamId id);
  // The event is recorded behind all that is on the stream; nullopt: on a stream with nothing of
  // ours.
  void record(CuEvent event, std::optional<StreamId> id);
  // The driver has refused to record it: it stands for what it stood for before.
  void take_back(CuEvent event);
  // Whether the event has been recorded behind something of ours, now or before.
  [[nodiscard]] bool knows(CuEvent event) const { return events_.contains(event); }
  // What a stream that waits for the event comes behind. nullopt: nothing of ours.
  [[nodiscard]] std::optional<SignalId> signal_of(CuEvent event) const;
  // What is put on the stream from now on comes behind `signal`.
  void wait(StreamId id, SignalId signal);

  // Held by a thread of the program from before_launch to after_launch, and where it records or
  // waits for an event: the engine must hear of them in the device's order. One for each stream,
  // and one for all that the device orders with each other by itself, `legacy()`. It comes before
  // the platform's lock.
  [[nodiscard]] Mutex& mutex_of(StreamId id);
  [[nodiscard]] Mutex& legacy() { return legacy_; }

 private:
  struct Recordings {
    std::optional<SignalId> last;    // nullopt where it has nothing of ours before it
    std::optional<SignalId> before;  // the one before that
  };
  void put_behind(StreamId who, StreamId whom);

  DeviceLaunches* launches_;
  Engine* engine_;
  Mutex legacy_;
  std::unordered_map<CuEvent, Recordings> events_;  // and values, by event_of
};

}  // namespace spillway::cuda
