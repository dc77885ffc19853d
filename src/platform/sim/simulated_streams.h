// Streams of a device in virtual time: what each has to do, in order, and the signals for which
// they wait. Layer: platform, simulator. A launch is known by its slot alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/types.h"
#include "platform/sim/event_queue.h"

namespace spillway::sim {

class SimulatedStreams {
 public:
  // `reached` is called with each launch that comes to the head of its stream. The clock must
  // outlive this.
  SimulatedStreams(const EventQueue& clock, std::function<void(std::uint32_t slot)> reached)
      : clock_(clock), reached_(std::move(reached)) {}

  // A launch stands behind all that was added to the stream before; on no stream (kNoStream) it
  // stands at its head at once. `reached` is not called.
  void add_launch(StreamId stream, std::uint32_t slot);
  // The one that was added last is gone.
  void take_back_launch(StreamId stream);
  // A signal may be waited for before it is recorded. Behind each of the latter two `advance`
  // follows.
  void add_signal(SignalId signal);
  void add_record(SignalId signal, StreamId stream);
  void add_wait(SignalId signal, StreamId stream);

  // Passes what the stream can pass now.
  void advance(StreamId stream);
  [[nodiscard]] bool is_at_head(StreamId stream, std::uint32_t slot) const;
  // Since when nothing runs on the stream; 0 on none.
  [[nodiscard]] TimeNs free_ns(StreamId stream) const;
  // The launch at its head has ended. `advance` follows.
  void launch_ended(StreamId stream, std::uint32_t slot);

  // visit(slot), each launch that stands at the head of its stream, or on none.
  template <typename Visit>
  void for_each_first(const Visit& visit) const {
    for (const Stream& stream : streams_) {
      if (!stream.items.empty() && stream.items.front().step == Step::kLaunch) {
        visit(static_cast<std::uint32_t>(stream.items.front().what));
      }
    }
    for (const std::uint32_t slot : unordered_) {
      visit(slot);
    }
  }

 private:
  enum class Step : std::uint8_t { kLaunch, kRecord, kWait };
  struct Item {
    Step step = Step::kLaunch;
    std::uint64_t what = 0;  // slot of a launch, or a signal
  };
  struct Stream {
    std::deque<Item> items;
    TimeNs free_ns = 0;  // when its last launch finished
    bool held = false;   // at a signal
  };

  const EventQueue& clock_;
  std::function<void(std::uint32_t)> reached_;
  std::vector<Stream> streams_;
  std::vector<std::uint32_t> unordered_;                         // launches of no stream
  std::unordered_map<SignalId, std::vector<StreamId>> signals_;  // that have not happened
};

}  // namespace spillway::sim
