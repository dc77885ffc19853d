// Threads in calls of which nobody is told, and one that closes them: no call is missed.
// docs/cuda.md.
#include "platform/cuda/bypass/bypassed_calls.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace spillway::cuda {
namespace {

constexpr std::size_t kCallers = 3;

CuStream stream_of(std::size_t thread) {
  return reinterpret_cast<CuStream>(std::uintptr_t{16} + thread);  // NOLINT
}

// Each writes its own number in a call, which is no race with who reads them once calls are closed
// and those that were marked have come back.
TEST(BypassedCalls, WhoClosesThemIsToldOfEachThatIsUnderWay) {
  BypassedCalls calls;
  std::mutex mutex;
  std::array<int, kCallers> under_way{};  // marked, and not come back yet
  std::array<std::uint64_t, kCallers> numbers{};
  std::atomic<bool> stop{false};
  const auto come_back = [&](std::size_t thread) { under_way[thread] -= calls.take_mark() == 7U; };
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kCallers; ++thread) {
    threads.emplace_back([&, thread] {
      while (!stop) {
        const BypassedCalls::Begun begun = calls.begin(stream_of(thread), nullptr);
        if (begun == BypassedCalls::Begun::kBypassed) {
          ++numbers[thread];
          if (!calls.end()) {
            const std::scoped_lock lock(mutex);
            come_back(thread);
          }
          continue;
        }
        const std::scoped_lock lock(mutex);
        if (begun == BypassedCalls::Begun::kMarked) {
          come_back(thread);
        } else if (calls.is_open()) {
          calls.begin_seen(stream_of(thread), nullptr, static_cast<StreamId>(thread));
          EXPECT_TRUE(calls.end());  // nobody closes them meanwhile
        }
      }
    });
  }
  [[maybe_unused]] std::uint64_t sum = 0;  // read for ThreadSanitizer to see
  for (int round = 0; round < 1000; ++round) {
    {
      const std::scoped_lock lock(mutex);
      calls.begin_period();
      calls.set_open(true);
    }
    std::this_thread::yield();
    std::unique_lock lock(mutex);
    calls.close([&](StreamId id) {
      ++under_way.at(id);
      return 7U;
    });
    while (under_way != std::array<int, kCallers>{}) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    for (const std::uint64_t number : numbers) {
      sum += number;
    }
  }
  stop = true;
  for (std::thread& it : threads) {
    it.join();
  }
  EXPECT_GE(calls.calls(), numbers[0] + numbers[1] + numbers[2]);
  EXPECT_EQ(under_way, (std::array<int, kCallers>{}));
}

TEST(BypassedCalls, AStreamIsHeardOfInEachQuiet) {
  BypassedCalls calls;
  EXPECT_EQ(calls.begin(stream_of(0), nullptr), BypassedCalls::Begun::kTracked);
  calls.begin_period();
  calls.set_open(true);
  EXPECT_EQ(calls.begin(stream_of(0), nullptr), BypassedCalls::Begun::kTracked);
  calls.begin_seen(stream_of(0), nullptr, 0);
  EXPECT_TRUE(calls.end());
  EXPECT_EQ(calls.begin(stream_of(0), nullptr), BypassedCalls::Begun::kBypassed);
  EXPECT_TRUE(calls.end());
  EXPECT_EQ(calls.begin(stream_of(1), nullptr), BypassedCalls::Begun::kTracked);
  EXPECT_EQ(calls.calls(), 2U);
  // It is on the other stream that a call was last, so none on this one can be taken for under way.
  calls.begin_seen(stream_of(1), nullptr, 1);
  EXPECT_TRUE(calls.end());
  EXPECT_EQ(calls.begin(stream_of(0), nullptr), BypassedCalls::Begun::kTracked);
  calls.close([](StreamId id) {
    ADD_FAILURE() << "a call on stream " << id;
    return 0U;
  });
  calls.begin_period();
  calls.set_open(true);
  EXPECT_EQ(calls.begin(stream_of(0), nullptr), BypassedCalls::Begun::kTracked);
}

}  // namespace
}  // namespace spillway::cuda
