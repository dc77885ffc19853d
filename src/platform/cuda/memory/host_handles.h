// Handles of host memory that the device uses over the link, for blocks that a launch needs while
// the device has no room. Layer: platform, cuda. Knows nothing of blocks. The driver thread's.
// Making one takes 0.2 ms a MiB, so free ones are kept for the next block of their size: a program
// that repeats itself needs the same sizes in each step. There are never more than were once in use
// at the same time.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "base/units.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/transfer/work_times.h"

namespace spillway::cuda {

// Where the memory of such handles lies for this device; nullopt where it cannot use host memory
// so.
[[nodiscard]] std::optional<int> node_of_host_handles(const Driver& driver, int device);

class HostHandles {
 public:
  // All must outlive it. `device`: ordinal; the memory is on its side of the machine.
  // `spare_bytes`: what the system can spare for another one; without it, all.
  HostHandles(const Driver& driver, int device, WorkTimes& times,
              std::function<Bytes()> spare_bytes = nullptr)
      : driver_(&driver), device_(device), times_(&times), spare_bytes_(std::move(spare_bytes)) {}

  // One of exactly this size, a multiple of kBlockBytes; it holds anything. kNotSupported where
  // the device cannot use host memory so, kOutOfMemory where the system can spare none; otherwise
  // the driver's error.
  [[nodiscard]] CuResult take(Bytes bytes, CuMemHandle& handle);
  // Mapped nowhere. Returns the driver's error, of this one or of another that had to go.
  CuResult give_back(CuMemHandle handle, Bytes bytes);
  // Of all that there are. Any thread's.
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  // Releases those that nobody has. Returns the first error.
  CuResult release_free();

 private:
  struct Free {
    CuMemHandle handle = 0;
    Bytes bytes = 0;
  };
  CuResult make(Bytes bytes, CuMemHandle& handle);
  // The oldest, until all are no more than this.
  CuResult release_down_to(Bytes bytes);

  const Driver* driver_;
  int device_;
  WorkTimes* times_;
  std::function<Bytes()> spare_bytes_;
  std::deque<Free> free_;  // oldest first
  Bytes free_bytes_ = 0;
  Bytes used_bytes_ = 0;
  Bytes most_used_bytes_ = 0;
  std::atomic<Bytes> bytes_{0};
};

}  // namespace spillway::cuda
