// Handles of device memory by size, and their sum in bytes, which never exceeds the budget: a
// handle of a new size is made only when enough free ones have been released. Layer: platform,
// cuda. Knows nothing of blocks. The driver thread's, except for functions that say otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "base/units.h"
#include "platform/cuda/driver/driver.h"
#include "platform/cuda/transfer/work_times.h"

namespace spillway::cuda {

class HandlePool {
 public:
  // The driver must outlive it. `device`: ordinal.
  HandlePool(const Driver& driver, int device, Bytes budget_bytes)
      : driver_(&driver), device_(device), budget_bytes_(budget_bytes) {}

  // A handle of exactly this size, a multiple of kBlockBytes; it holds anything. kOutOfMemory where
  // the device has no room, whatever the budget says, or the budget has none: then nothing has
  // changed but that free handles of other sizes may be gone. Any other error is the driver's.
  [[nodiscard]] CuResult take(Bytes bytes, CuMemHandle& handle);
  // Whether the budget has no room for so much, even if all free handles are released.
  [[nodiscard]] bool full(Bytes bytes) const {
    const MutexLock lock(mutex_);
    return bytes_ - free_bytes_ + bytes > budget_bytes_;
  }
  // Mapped nowhere. Kept for the next block of its size, or released if the budget has shrunk.
  void give_back(CuMemHandle handle, Bytes bytes);
  // Mapped nowhere but by who still has it mapped (`before_release`). Nobody gets it again: others
  // than we may have its memory. Returns the first error of the driver.
  CuResult release(CuMemHandle handle, Bytes bytes);
  // A smaller one is reached as handles are given back.
  void set_budget(Bytes bytes);
  // Free handles are released where all together have more than `keep_at_most`, when one is made or
  // given back.
  void release_what_is_too_much();
  // Whether what is made may be reached by a disk (direct_storage.h). Before the first is made.
  void make_for_direct_storage(bool yes) { rdma_capable_ = yes; }
  // Whether other processes may get what is made (exporting.h). Before the first is made.
  void make_exportable(bool yes) { exportable_ = yes; }
  [[nodiscard]] bool exportable() const { return exportable_; }
  // Who still has free handles mapped somewhere: told before one is released.
  void before_release(std::function<CuResult(CuMemHandle)> told) { told_ = std::move(told); }
  // Releases those that are free. Returns the first error of the driver.
  CuResult release_free();

  // Any thread's.
  void keep_at_most(Bytes bytes) { kept_at_most_bytes_ = bytes; }
  // Any thread's. Makes no call of the driver: a handle that nobody uses is given back as it is;
  // false if the budget has shrunk and it had better be released.
  [[nodiscard]] bool put_back(CuMemHandle handle, Bytes bytes);
  // True if this very handle is free: the caller has it now.
  [[nodiscard]] bool claim(CuMemHandle handle, Bytes bytes);
  [[nodiscard]] WorkTimes& times() { return times_; }
  [[nodiscard]] const WorkTimes& times() const { return times_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }  // free ones as well
  [[nodiscard]] Bytes peak_bytes() const { return peak_bytes_; }

 private:
  struct Free {
    CuMemHandle handle = 0;
    std::uint64_t since = 0;  // counts what has been given back
  };
  CuResult create(Bytes bytes, CuMemHandle& handle);
  // kNotFound if none is free.
  CuResult release_oldest();
  void release_down_to(Bytes bytes);

  const Driver* driver_;
  int device_;
  bool rdma_capable_ = false;
  bool exportable_ = false;
  std::function<CuResult(CuMemHandle)> told_;
  mutable Mutex mutex_;
  Bytes budget_bytes_ SPILLWAY_GUARDED_BY(mutex_);
  std::map<Bytes, std::deque<Free>> free_ SPILLWAY_GUARDED_BY(mutex_);  // by size, oldest first
  std::uint64_t given_back_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  Bytes free_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  CuResult first_error_ = CuResult::kSuccess;  // of a release
  WorkTimes times_;                            // of everything that the pool's thread does
  std::atomic<Bytes> kept_at_most_bytes_{~Bytes{0}};
  std::atomic<Bytes> bytes_{0};
  std::atomic<Bytes> peak_bytes_{0};
};

}  // namespace spillway::cuda
