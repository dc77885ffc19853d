// Commands for which the device has no memory now, and how long that has been so. Layer: platform,
// cuda. The driver thread's.
#pragma once

#include <deque>
#include <utility>

#include "base/units.h"
#include "platform/cuda/transfer/driver_command.h"

namespace spillway::cuda {

class MemoryShortage {
 public:
  [[nodiscard]] bool empty() const { return waiting_.empty(); }
  void add(DriverCommand command) { waiting_.push_back(std::move(command)); }
  // A block that waits for memory may be given up before it has any. False: it does not wait.
  [[nodiscard]] bool give_up(BlockId block);
  // The first in line goes first, so that one of them gets all of what it needs. `carry_out` of a
  // command is false as long as there is no memory for it.
  template <typename CarryOut>
  void retry(const CarryOut& carry_out) {
    while (!waiting_.empty() && carry_out(waiting_.front())) {
      waiting_.pop_front();
    }
    if (waiting_.empty()) {
      since_ns_ = 0;
    }
  }

  // Others use the card, or a refusal passes by itself. What is to be done where something waits.
  struct Due {
    bool tell = false;     // the budget should be lowered
    bool give_up = false;  // the run should end
  };
  [[nodiscard]] Due look(TimeNs now_ns);
  // Something has waited so long that host memory should be taken instead.
  [[nodiscard]] bool is_long(TimeNs now_ns) const;

 private:
  std::deque<DriverCommand> waiting_;
  TimeNs since_ns_ = 0;  // 0: nothing waits, or nobody has looked yet
  TimeNs told_ns_ = 0;
};

}  // namespace spillway::cuda
