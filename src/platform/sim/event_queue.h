// Virtual time, and what happens when. Layer: platform, simulator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "base/units.h"

namespace spillway::sim {

struct Event {
  enum class Kind : std::uint8_t {
    kTransferStarts,
    kLaunchFinishes,
    kFaultsArrive,
    kOrderEnds,
    kCleared,
  };
  TimeNs at_ns;
  std::uint64_t order;
  Kind kind;
  std::uint64_t id;  // slot of a transfer or launch
  bool operator>(const Event& other) const {
    return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
  }
};

class EventQueue {
 public:
  [[nodiscard]] TimeNs now_ns() const { return now_ns_; }
  // Of what is pushed for the same time, the first comes first. Not before now.
  void push(TimeNs at_ns, Event::Kind kind, std::uint64_t id) {
    queue_.push({at_ns, order_++, kind, id});
  }
  // When the next one happens; nullopt: there is none.
  [[nodiscard]] std::optional<TimeNs> next_ns() const {
    return queue_.empty() ? std::nullopt : std::optional(queue_.top().at_ns);
  }
  // The next one, of which there must be one: its time is now.
  Event take() {
    const Event event = queue_.top();
    queue_.pop();
    now_ns_ = event.at_ns;
    return event;
  }
  // Time passes until then, if it is not that late already.
  void pass_until(TimeNs at_ns) { now_ns_ = std::max(now_ns_, at_ns); }

 private:
  std::priority_queue<Event, std::vector<Event>, std::greater<>> queue_;
  std::uint64_t order_ = 0;
  TimeNs now_ns_ = 0;
};

}  // namespace spillway::sim
