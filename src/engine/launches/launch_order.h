// Which launch on the device may be admitted next: streams, the signals by which one waits for
// another, and the order of issue. Layer: engine. Knows nothing of blocks or bytes, nor of updates,
// which stand on no stream (updates.h). docs/engine.md, "Nothing waits for ever".
//
// A launch can be admitted when everything that must run before it has been admitted: its
// predecessors on its stream, and whatever its stream waits for. So the order of admission never
// goes against an order in which the program lets launches run, and of those that are admitted
// and have not ended the first one can always run.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/types.h"

namespace spillway {

class LaunchOrder {
 public:
  // At most so many launches of one stream are admitted at once; at least 1.
  void set_window(std::uint32_t launches_per_stream);

  void issue(std::uint32_t slot, const Launch& launch);
  // The signal is given when everything has been admitted that came before on the stream; what
  // follows a wait on its stream may be admitted when the signal has been given. A signal may be
  // waited for before it is recorded.
  [[nodiscard]] SignalId create_signal();
  void record(SignalId signal, StreamId stream);
  void wait(SignalId signal, StreamId stream);
  // Given now, whatever was recorded: by the host, or by nobody any more.
  void give(SignalId signal);

  // The launch that is to be admitted next; kNoSlot if none can be.
  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
  [[nodiscard]] std::uint32_t next() const {
    return ready_.empty() ? kNoSlot : ready_.top().second;
  }
  // It has been admitted.
  void admit_next(const Launch& launch);
  // A launch of this stream that was admitted has ended.
  void ended(StreamId stream);

  // Whether a stream stands at a signal that nobody has given.
  [[nodiscard]] bool waits_for_signals() const { return held_streams_ > 0; }

  // Every stream stands where something holds it.
  [[nodiscard]] Status check() const;

 private:
  enum class Step : std::uint8_t { kLaunch, kRecord, kWait };
  struct Item {
    Step step = Step::kLaunch;
    std::uint64_t what = 0;  // a slot or a signal
    LaunchSeq seq = 0;
  };
  struct Stream {
    std::deque<Item> items;      // that have not been passed, in order
    std::uint32_t admitted = 0;  // launches that have not ended
    bool offered = false;        // its first item is a launch that may be admitted
    bool held = false;           // ... or a wait for a signal that has not been given
  };
  Stream& stream(StreamId id);
  void advance(StreamId id);
  void push(StreamId id, Item item);

  std::uint32_t launches_per_stream_ = ~std::uint32_t{0};
  std::vector<Stream> streams_;
  // Signals that have not been given, with the streams that stand at them.
  std::unordered_map<SignalId, std::vector<StreamId>> signals_;
  SignalId last_signal_ = 0;
  std::uint32_t held_streams_ = 0;
  using Offer = std::pair<LaunchSeq, std::uint32_t>;  // and the slot
  std::priority_queue<Offer, std::vector<Offer>, std::greater<>> ready_;
};

}  // namespace spillway
