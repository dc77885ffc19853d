// A mutex whose holder no handler of a signal interrupts. Layer: platform, common.
// A handler may touch any of the program's memory, and then waits for whoever brings it; who brings
// it needs this mutex. So where the program's threads hold it, signals come later. Those that say
// that the holder itself has done something wrong come as ever.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>

#include "base/thread_annotations.h"

namespace spillway {

class SPILLWAY_CAPABILITY("mutex") UndisturbedMutex {
 public:
  void lock() SPILLWAY_ACQUIRE() {
    sigset_t before;
    ::pthread_sigmask(SIG_BLOCK, &deferrable(), &before);
    mutex_.lock();
    before_ = before;
  }
  [[nodiscard]] bool try_lock() SPILLWAY_TRY_ACQUIRE(true) {
    sigset_t before;
    ::pthread_sigmask(SIG_BLOCK, &deferrable(), &before);
    if (!mutex_.try_lock()) {
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
      return false;
    }
    before_ = before;
    return true;
  }
  void unlock() SPILLWAY_RELEASE() {
    const sigset_t before = before_;
    mutex_.unlock();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  // As of std::condition_variable. Handlers come later still: one that ran between
  // two steps of a wait might need whoever is about to notify.
  void wait_for(std::condition_variable& changed, std::chrono::milliseconds most)
      SPILLWAY_REQUIRES(this) {
    const sigset_t before = before_;
    std::unique_lock inner(mutex_, std::adopt_lock);
    changed.wait_for(inner, most);
    inner.release();
    before_ = before;
  }
  // By who may wait for long: handlers run here, while nothing is held.
  void let_handlers_run() SPILLWAY_REQUIRES(this) {
    unlock();
    lock();
  }
  // In the child of a fork that was made with the mutex held, and which will never want it.
  void leave_held() SPILLWAY_REQUIRES(this) { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  static const sigset_t& deferrable() {
    static const sigset_t all = [] {
      sigset_t signals;
      ::sigfillset(&signals);
      for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
        ::sigdelset(&signals, own);
      }
      return signals;
    }();
    return all;
  }

  std::mutex mutex_;
  sigset_t before_{};  // what its holder had blocked
};

}  // namespace spillway
