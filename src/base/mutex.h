// The standard library's mutexes with annotations, so that clang checks what they guard
// (thread_annotations.h), and the lock that takes one for a scope. Layer: base. They cost what
// those of the standard library cost, and may be global for the same reason: nothing has to run
// before they can be locked.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/thread_annotations.h"

namespace spillway {

// Waits are made here and not with a std::unique_lock, which clang does not know. A predicate is a
// lambda with SPILLWAY_REQUIRES of the mutex.
class SPILLWAY_CAPABILITY("mutex") Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() SPILLWAY_ACQUIRE() { mutex_.lock(); }
  void unlock() SPILLWAY_RELEASE() { mutex_.unlock(); }
  [[nodiscard]] bool try_lock() SPILLWAY_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

  // As those of std::condition_variable: the mutex is let go while the thread waits.
  void wait(std::condition_variable& changed) SPILLWAY_REQUIRES(this) {
    Waiting lock(mutex_);
    changed.wait(lock.held);
  }
  template <typename Predicate>
  void wait(std::condition_variable& changed, Predicate predicate) SPILLWAY_REQUIRES(this) {
    Waiting lock(mutex_);
    changed.wait(lock.held, std::move(predicate));
  }
  template <typename Rep, typename Period>
  std::cv_status wait_for(std::condition_variable& changed,
                          const std::chrono::duration<Rep, Period>& most) SPILLWAY_REQUIRES(this) {
    Waiting lock(mutex_);
    return changed.wait_for(lock.held, most);
  }
  template <typename Rep, typename Period, typename Predicate>
  bool wait_for(std::condition_variable& changed, const std::chrono::duration<Rep, Period>& most,
                Predicate predicate) SPILLWAY_REQUIRES(this) {
    Waiting lock(mutex_);
    return changed.wait_for(lock.held, most, std::move(predicate));
  }
  template <typename Clock, typename Duration>
  std::cv_status wait_until(std::condition_variable& changed,
                            const std::chrono::time_point<Clock, Duration>& end)
      SPILLWAY_REQUIRES(this) {
    Waiting lock(mutex_);
    return changed.wait_until(lock.held, end);
  }

 private:
  // The caller holds the Mutex before the wait and after it.
  struct Waiting {
    explicit Waiting(std::mutex& mutex) : held(mutex, std::adopt_lock) {}
    ~Waiting() { held.release(); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    std::unique_lock<std::mutex> held;
  };

  std::mutex mutex_;
};

// Many may hold it at once to read (SharedLock), or one to write (MutexLock).
class SPILLWAY_CAPABILITY("mutex") SharedMutex {
 public:
  void lock() SPILLWAY_ACQUIRE() { mutex_.lock(); }
  void unlock() SPILLWAY_RELEASE() { mutex_.unlock(); }
  void lock_shared() SPILLWAY_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() SPILLWAY_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

// Holds a mutex of any kind until the end of the scope, but for when it was unlocked meanwhile.
template <typename AnyMutex>
class SPILLWAY_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(AnyMutex& mutex) SPILLWAY_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  // The caller has locked it, as by try_lock.
  MutexLock(AnyMutex& mutex, std::adopt_lock_t /*held*/) SPILLWAY_REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() SPILLWAY_RELEASE() {
    if (held_) {
      mutex_.unlock();
    }
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() SPILLWAY_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }
  void unlock() SPILLWAY_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }

 private:
  AnyMutex& mutex_;
  bool held_ = true;
};

// Holds it to read.
class SPILLWAY_SCOPED_CAPABILITY SharedLock {
 public:
  explicit SharedLock(SharedMutex& mutex) SPILLWAY_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~SharedLock() SPILLWAY_RELEASE() { mutex_.unlock_shared(); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace spillway
