// Handlers of signals run before a mutex is taken or after it is let go, never by its holder.
#include "platform/common/process/undisturbed_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include "base/mutex.h"

namespace spillway {
namespace {

std::atomic<int> handled{0};

bool blocked(int signal) {
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return ::sigismember(&now, signal) == 1;
}

TEST(UndisturbedMutexTest, SignalsComeWhenItIsLetGo) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { ++handled; };
  ::sigaction(SIGUSR1, &action, &before);
  UndisturbedMutex mutex;
  {
    const MutexLock lock(mutex);
    ::raise(SIGUSR1);
    EXPECT_EQ(handled, 0);
    EXPECT_TRUE(blocked(SIGALRM));
    EXPECT_FALSE(blocked(SIGSEGV));
    std::thread other([&] {
      EXPECT_FALSE(std::unique_lock(mutex, std::try_to_lock).owns_lock());
      EXPECT_TRUE(blocked(SIGALRM));  // inherited
    });
    other.join();
  }
  EXPECT_EQ(handled, 1);
  EXPECT_FALSE(blocked(SIGALRM));
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(UndisturbedMutexTest, WhatWasBlockedStaysSo) {
  sigset_t one;
  sigset_t before;
  ::sigemptyset(&one);
  ::sigaddset(&one, SIGUSR2);
  ::pthread_sigmask(SIG_BLOCK, &one, &before);
  UndisturbedMutex mutex;
  mutex.lock();
  mutex.unlock();
  EXPECT_TRUE(blocked(SIGUSR2));
  EXPECT_FALSE(blocked(SIGALRM));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Not in the wait itself, but where its holder lets them.
TEST(UndisturbedMutexTest, SignalsComeWhileSomethingIsWaitedFor) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { ++handled; };
  ::sigaction(SIGUSR1, &action, &before);
  handled = 0;
  UndisturbedMutex mutex;
  std::condition_variable changed;
  const MutexLock lock(mutex);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  ::raise(SIGUSR1);
  EXPECT_EQ(handled, 0);
  while (handled == 0 && std::chrono::steady_clock::now() < deadline) {
    mutex.wait_for(changed, std::chrono::milliseconds(1));
    EXPECT_EQ(handled, 0);
    mutex.let_handlers_run();
  }
  EXPECT_EQ(handled, 1);
  EXPECT_TRUE(blocked(SIGALRM));
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace spillway
