// For how long at least one thread of the program has been stopped. Layer: platform, common.
// Not thread-safe, but for `ended_stalls_ns`.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/units.h"
#include "platform/common/process/clock.h"

namespace spillway {

class StallClock {
 public:
  // `at_ns` may be before the end of a stall that is over: that time has been counted.
  void begin(TimeNs at_ns) {
    if (stopped_++ == 0) {
      since_ns_ = std::max(at_ns, counted_until_ns_);
    }
  }
  void end() {
    if (--stopped_ == 0) {
      counted_until_ns_ = now_ns();
      ended_ns_ += counted_until_ns_ - since_ns_;
    }
  }
  // 0 while nobody is stopped.
  [[nodiscard]] TimeNs current_ns() const { return stopped_ > 0 ? now_ns() - since_ns_ : 0; }
  [[nodiscard]] TimeNs total_ns() const { return ended_ns_ + current_ns(); }
  // But for a stall that lasts. Any thread's.
  [[nodiscard]] TimeNs ended_stalls_ns() const { return ended_ns_; }

 private:
  std::uint32_t stopped_ = 0;  // threads, or blocks that threads are stopped at
  TimeNs since_ns_ = 0;
  TimeNs counted_until_ns_ = 0;
  std::atomic<TimeNs> ended_ns_{0};
};

}  // namespace spillway
