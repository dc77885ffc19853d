// Whether anything leaves the device at all, where the program may hold what is there for I/O of
// its own. Layer: platform, host. What is held is not tried for long: others leave instead. Only if
// all that is tried is held, time after time and for long, does the program hold everything. A
// program that needs nothing for a while tries nothing, and that is no sign.
#pragma once

#include "base/units.h"

namespace spillway::host {

class Departures {
 public:
  static constexpr TimeNs kPatienceNs = 10 * kNsPerS;
  static constexpr int kTries = 100;

  // Some blocks were to leave: whether any of them has. True if nothing leaves any more.
  bool end(bool some_left, TimeNs at_ns) {
    if (some_left) {
      held_in_a_row_ = 0;
    } else if (held_in_a_row_++ == 0) {
      since_ns_ = at_ns;
    }
    return held_in_a_row_ >= kTries && at_ns - since_ns_ > kPatienceNs;
  }

 private:
  int held_in_a_row_ = 0;
  TimeNs since_ns_ = 0;  // the first of them
};

}  // namespace spillway::host
