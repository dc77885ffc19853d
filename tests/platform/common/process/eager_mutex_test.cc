// A mutex whose threads try before they sleep: still a mutex, and they sleep in the end.
#include "platform/common/process/eager_mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <thread>
#include <vector>

namespace spillway {
namespace {

TEST(EagerMutexTest, OneHoldsItAtATime) {
  EagerMutex mutex;
  int counted = 0;  // not atomic
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 5'000; ++k) {
        MutexLock lock(mutex);
        ++counted;
        lock.unlock();
        lock.lock();
        ++counted;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(counted, 40'000);
}

TimeNs processor_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * kNsPerS + time.tv_nsec;
}

// Asleep, but for the first moment.
TEST(EagerMutexTest, WaitsForAHolderThatTakesLong) {
  EagerMutex mutex;
  bool done = false;
  MutexLock lock(mutex);
  std::thread other([&] {
    const TimeNs before_ns = processor_ns();
    const MutexLock after(mutex);
    EXPECT_TRUE(done);
    EXPECT_LT(processor_ns() - before_ns, 20'000'000);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  done = true;
  lock.unlock();
  other.join();
  lock.lock();  // nobody has it
}

TEST(EagerMutexTest, ConditionsTakeIt) {
  EagerMutex mutex;
  std::condition_variable changed;
  bool ready = false;
  std::thread other([&] {
    const MutexLock lock(mutex);
    ready = true;
    changed.notify_all();
  });
  const MutexLock lock(mutex);
  mutex.wait(changed, [&] { return ready; });
  EXPECT_TRUE(ready);
  other.join();
}

}  // namespace
}  // namespace spillway
