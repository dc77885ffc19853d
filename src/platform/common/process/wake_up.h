// Sleep until somebody calls, or for a while. Layer: platform, common. Thread-safe.
#pragma once

#include <sys/prctl.h>

#include <chrono>
#include <condition_variable>

#include "base/mutex.h"
#include "base/units.h"

namespace spillway {

class WakeUp {
 public:
  // Until somebody calls.
  static constexpr TimeNs kForLongNs = 3'600'000'000'000;
  // The calling thread's sleeps of microseconds are just that.
  static void make_sleeps_precise() { ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); }

  // A call that came since the last return counts.
  void wait_for(TimeNs most_ns) {
    const MutexLock lock(mutex_);
    mutex_.wait_for(called_, std::chrono::nanoseconds(most_ns),
                    [&]() SPILLWAY_REQUIRES(mutex_) { return woken_; });
    woken_ = false;
  }
  void call() {
    {
      const MutexLock lock(mutex_);
      if (woken_) {
        return;
      }
      woken_ = true;
    }
    called_.notify_one();
  }

 private:
  Mutex mutex_;
  std::condition_variable called_;
  bool woken_ SPILLWAY_GUARDED_BY(mutex_) = false;
};

}  // namespace spillway
