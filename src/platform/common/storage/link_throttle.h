// Lets migrations between two kinds of memory take as long as a link of a given speed would need,
// so that plain memory stands in for a device behind PCIe. Layer: platform, common. Each direction
// carries one transfer after the other. Thread-safe.
#pragma once

#include <algorithm>
#include <array>

#include "base/mutex.h"
#include "base/units.h"

namespace spillway {

struct LinkSpeed {
  double bytes_per_s = 0;       // each way; 0: as fast as the copies are
  TimeNs fault_latency_ns = 0;  // before a faulted block begins to move

  [[nodiscard]] bool limited() const { return bytes_per_s > 0; }
  // What it carries where the memory itself is as fast as this.
  [[nodiscard]] double carries(double memory_bytes_per_s) const {
    return limited() ? std::min(bytes_per_s, memory_bytes_per_s) : memory_bytes_per_s;
  }
};

enum class LinkDirection : std::uint8_t { kToDevice, kFromDevice };

class LinkThrottle {
 public:
  explicit LinkThrottle(const LinkSpeed& speed) : speed_(speed) {}

  // The time at which `bytes` that begin to move now would have arrived; the caller waits until
  // then and copies them.
  TimeNs book(LinkDirection direction, Bytes bytes, TimeNs ready_ns) {
    if (!speed_.limited()) {
      return ready_ns;
    }
    const MutexLock lock(mutex_);
    TimeNs& free_ns = free_ns_[static_cast<std::size_t>(direction)];
    free_ns = std::max(free_ns, ready_ns) +
              static_cast<TimeNs>(static_cast<double>(bytes) / speed_.bytes_per_s * 1e9);
    return free_ns;
  }
  // When what was booked has been carried.
  [[nodiscard]] TimeNs free_at_ns(LinkDirection direction) const {
    const MutexLock lock(mutex_);
    return free_ns_[static_cast<std::size_t>(direction)];
  }
  [[nodiscard]] const LinkSpeed& speed() const { return speed_; }

 private:
  LinkSpeed speed_;
  mutable Mutex mutex_;
  std::array<TimeNs, 2> free_ns_ SPILLWAY_GUARDED_BY(mutex_){};
};

}  // namespace spillway
