// A lock that tries for a moment before its thread sleeps. Layer: platform, common.
// For a mutex that is held for some microseconds, by a thread that comes for it thousands of times
// a second: to fall asleep behind it and to be woken takes ten times as long as to wait awake. A
// condition that is waited for with it, and whoever takes it as a std::unique_lock, locks again as
// that does.
#pragma once

#include <mutex>
#include <thread>

#include "platform/common/process/clock.h"

namespace spillway {

class EagerLock : public std::unique_lock<std::mutex> {
 public:
  explicit EagerLock(std::mutex& mutex) : std::unique_lock<std::mutex>(mutex, std::defer_lock) {
    lock();
  }

  void lock() {
    if (try_lock()) {
      return;
    }
    const TimeNs until_ns = now_ns() + kMostAwakeNs;
    do {
      // Where there are few processors the holder may need this one.
      std::this_thread::yield();
      if (try_lock()) {
        return;
      }
    } while (now_ns() < until_ns);
    std::unique_lock<std::mutex>::lock();
  }

 private:
  static constexpr TimeNs kMostAwakeNs = 20'000;
};

}  // namespace spillway
