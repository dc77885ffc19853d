// Who may use a channel of the device (paper section 3.2): the host's transfers in normal mode, the
// kernel in acceleration mode, never both. Layer: platform, simulator.
#pragma once

#include <cassert>
#include <cstdint>

namespace spillway::sim::near_memory {

class Arbiter {
 public:
  // Normal mode, and no kernel that waits for it to end: else transfers could keep one out for
  // ever.
  [[nodiscard]] bool takes_transfers() const { return !wanted_ && !accelerates_; }
  void begin_transfer() {
    assert(takes_transfers());
    ++transfers_;
  }
  void end_transfer() {
    assert(transfers_ > 0);
    --transfers_;
  }

  // Acceleration mode begins once the transfers that have begun are done.
  void want_kernel() { wanted_ = true; }
  [[nodiscard]] bool takes_kernel() const { return wanted_ && transfers_ == 0 && !accelerates_; }
  void begin_kernel() {
    assert(takes_kernel());
    wanted_ = false;
    accelerates_ = true;
  }
  void end_kernel() {
    assert(accelerates_);
    accelerates_ = false;
  }

 private:
  std::uint32_t transfers_ = 0;
  bool wanted_ = false;
  bool accelerates_ = false;
};

}  // namespace spillway::sim::near_memory
