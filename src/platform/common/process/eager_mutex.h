// A mutex whose threads try for a moment before they sleep. Layer: platform, common.
// For one that is held for some microseconds, by a thread that comes for it thousands of times a
// second: to fall asleep behind it and to be woken takes ten times as long as to wait awake. A
// condition that is waited for with it, and whoever takes it as a Mutex, locks again as that does.
#pragma once

#include <thread>

#include "base/mutex.h"
#include "platform/common/process/clock.h"

namespace spillway {

class SPILLWAY_CAPABILITY("mutex") EagerMutex : public Mutex {
 public:
  void lock() SPILLWAY_ACQUIRE() {
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
    Mutex::lock();
  }

 private:
  static constexpr TimeNs kMostAwakeNs = 20'000;
};

}  // namespace spillway
