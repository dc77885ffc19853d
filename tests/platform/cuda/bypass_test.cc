// While everything fits nobody is told of launches, and nothing is lost when that ends.
// docs/cuda.md.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "platform/cuda/cuda_world.h"

namespace spillway::cuda {

// The driver's, which the platform itself does not need.
extern "C" {
CuResult cuStreamBeginCapture_v2(CuStream stream, unsigned mode);
CuResult cuStreamEndCapture(CuStream stream, void** graph);
CuResult cuGraphGetNodes(void* graph, void* nodes, std::size_t* count);
CuResult cuGraphDestroy(void* graph);
}

namespace {

class Bypass : public CudaWorld {
 protected:
  void SetUp() override {
    options.bypass_after = 4;
    options.bypass_after_at_most = 4;
    open(lookahead);
    ASSERT_EQ(driver.stream_create(&stream, kCuStreamNonBlocking, 0), CuResult::kSuccess);
    ASSERT_EQ(driver.stream_create(&other, kCuStreamNonBlocking, 0), CuResult::kSuccess);
  }
  // Buffers of 2 MiB that have been used until nobody has to be told any more.
  std::vector<Buffer> settled(std::size_t count) {
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < count; ++i) {
      buffers.push_back(allocate(2 * kMiB));
      fill(stream, buffers.back(), ++seed);
    }
    platform->wait_until_idle();
    for (int i = 0; i < 100 && platform->bypass().bypassed_calls() == 0; ++i) {
      rewrite(stream, buffers[0], ++seed);
    }
    synchronize(stream);
    EXPECT_TRUE(is_bypassed());
    return buffers;
  }
  [[nodiscard]] bool is_bypassed() const { return is_bypassed(stream); }
  [[nodiscard]] bool is_bypassed(CuStream on) const {
    const bool quiet = platform->bypass().begin_bypassed(on);
    if (quiet) {
      platform->bypass().end_bypassed();
    }
    return quiet;
  }
  void check_all(const std::vector<Buffer>& buffers) {
    for (const Buffer& buffer : buffers) {
      check(stream, buffer);
    }
    synchronize(stream);
    EXPECT_EQ(wrong_words(), 0U);
    whole();
  }
  // More than is free: whoever uses it first needs the room of something.
  Buffer too_much() { return allocate(8 * kMiB); }

  std::atomic<int> captures{0};
  CuStream stream = nullptr;
  CuStream other = nullptr;
  std::uint64_t seed = 0;
};

TEST_F(Bypass, LaunchesAreNotToldOf) {
  std::vector<Buffer> buffers = settled(6);
  const std::uint64_t told =
      platform->stats().engine.launches - platform->bypass().bypassed_calls();
  const std::uint64_t unseen = platform->bypass().bypassed_calls();
  for (int i = 0; i < 200; ++i) {
    rewrite(i % 3 == 0 ? other : stream, buffers[static_cast<std::size_t>(i) % 6], ++seed);
    synchronize(stream);
    synchronize(other);
  }
  EXPECT_EQ(platform->bypass().bypassed_calls(), unseen + 200);
  EXPECT_EQ(platform->stats().engine.launches - platform->bypass().bypassed_calls(), told);
  check_all(buffers);
}

TEST_F(Bypass, WhatWasWrittenUnseenIsThereAfterwards) {
  std::vector<Buffer> buffers = settled(6);
  for (Buffer& buffer : buffers) {
    rewrite(stream, buffer, ++seed);
  }
  Buffer more = too_much();
  fill(stream, more, ++seed);
  EXPECT_FALSE(is_bypassed());
  buffers.push_back(more);
  check_all(buffers);
  EXPECT_GT(moved(Tier::kDevice, Tier::kHost), 0U);
}

// It came from below, so it had a copy there, which was right until somebody wrote.
TEST_F(Bypass, ACopyBelowIsNotTakenForWhatWasWrittenUnseen) {
  std::vector<Buffer> buffers = settled(6);
  for (int round = 0; round < 3; ++round) {
    Buffer more = too_much();
    fill(stream, more, ++seed);
    for (const Buffer& buffer : buffers) {
      check(stream, buffer);
    }
    synchronize(stream);
    platform->memory().free(more.address);
    for (int i = 0; i < 20; ++i) {
      for (Buffer& buffer : buffers) {
        rewrite(stream, buffer, ++seed);
      }
    }
  }
  check_all(buffers);
}

// It comes for being read, and is written by who has its address from the device.
TEST_F(Bypass, WhatIsExposedMeanwhileIsSoAfterwards) {
  std::vector<Buffer> buffers = settled(6);
  expose(stream, buffers[0], buffers[1]);
  EXPECT_TRUE(is_bypassed());
  Buffer more = too_much();
  fill(stream, more, ++seed);
  EXPECT_FALSE(is_bypassed());
  const auto use_others = [&] {
    check(stream, more);
    check_all({buffers.begin() + 2, buffers.end()});
  };
  use_others();
  check_all({buffers[1], buffers[0]});
  rewrite_unseen(stream, buffers[0], buffers[1], ++seed);
  use_others();
  check_all(buffers);
}

TEST_F(Bypass, NothingLeavesBeforeTheDeviceHasPassedWhatWasUnseen) {
  std::vector<Buffer> buffers = settled(6);
  config.launch_ns = 20'000'000;
  fake_cuda_change(&config);
  for (Buffer& buffer : buffers) {
    rewrite(other, buffer, ++seed);  // 120 ms of them
  }
  config.launch_ns = 0;
  fake_cuda_change(&config);
  Buffer more = too_much();
  fill(stream, more, ++seed);
  synchronize(other);
  check_all(buffers);
}

// A thread has begun a call, and issues it only when bypass mode is over.
TEST_F(Bypass, ACallThatIsUnderWayWhenItEndsIsWaitedFor) {
  std::vector<Buffer> buffers = settled(6);
  ASSERT_TRUE(platform->bypass().begin_bypassed(
      stream));  // known from now on, as in any thread's second call
  platform->bypass().end_bypassed();
  std::atomic<bool> begun{false};
  std::atomic<bool> go{false};
  std::thread late([&] {
    (void)driver.context_set_current(primary);
    ASSERT_TRUE(platform->bypass().begin_bypassed(other));
    begun = true;
    while (!go) {
      std::this_thread::yield();
    }
    Buffer& buffer = buffers[3];
    EXPECT_EQ(launch(test::kernels().rewrite, other, buffer.address, buffer.words, buffer.seed,
                     seed + 1000, address_of(wrong)),
              CuResult::kSuccess);
    buffer.seed = seed + 1000;
    platform->bypass().end_bypassed();
  });
  while (!begun) {
    std::this_thread::yield();
  }
  Buffer more = too_much();
  fill(stream, more, ++seed);  // leaves bypass mode, and stands behind a stream wait
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(moved(Tier::kDevice, Tier::kHost), 0U);
  go = true;
  late.join();
  synchronize(other);
  check_all(buffers);
  check(stream, more);
  synchronize(stream);
  EXPECT_GT(moved(Tier::kDevice, Tier::kHost), 0U);
}

// In the order of its stream it is the next owner's at once, however far the device is behind.
TEST_F(Bypass, MemoryIsHandedOnWithoutAWord) {
  std::vector<Buffer> buffers = settled(6);
  const std::uint64_t unseen = platform->bypass().bypassed_calls();
  for (int i = 0; i < 50; ++i) {
    platform->memory().retire(buffers[1].address, std::nullopt);
    ASSERT_TRUE(platform->memory().reuse(buffers[1].address));
    fill(stream, buffers[1], ++seed);
    rewrite(stream, buffers[1], ++seed);
  }
  EXPECT_EQ(platform->bypass().bypassed_calls(), unseen + 100);
  check_all(buffers);
}

TEST_F(Bypass, WhatDiedMeanwhileIsDeadAfterwardsAndDoesNotMove) {
  std::vector<Buffer> buffers = settled(6);
  const std::vector<Buffer> kept = {buffers[0], buffers[1]};
  for (std::size_t i = 2; i < buffers.size(); ++i) {
    platform->memory().retire(buffers[i].address, std::nullopt);
  }
  Buffer more = too_much();
  fill(stream, more, ++seed);
  check_all(kept);
  EXPECT_EQ(moved(Tier::kDevice, Tier::kHost), 0U);
}

TEST_F(Bypass, NewMemoryIsToldOfUntilItIsThere) {
  std::vector<Buffer> buffers = settled(3);
  Buffer fresh = allocate(2 * kMiB);
  EXPECT_FALSE(is_bypassed());
  fill(stream, fresh, ++seed);
  platform->wait_until_idle();
  rewrite(stream, buffers[0], ++seed);
  EXPECT_TRUE(is_bypassed());
  buffers.push_back(fresh);
  check_all(buffers);
}

// A workspace that no kernel wanted, say: calls are looked at until it has its memory, not for
// ever.
TEST_F(Bypass, MemoryThatNobodyUsesIsGivenItsFrames) {
  std::vector<Buffer> buffers = settled(3);
  allocate(2 * kMiB);
  EXPECT_FALSE(is_bypassed());
  // When the driver thread of a busy machine has been there.
  EXPECT_TRUE(soon([&] {
    rewrite(stream, buffers[0], ++seed);
    return is_bypassed();
  }));
  EXPECT_EQ(platform->stats().engine.evictions, 0U);
  check_all(buffers);
}

// Freed while its memory is on its way, again and again: nothing of it stays.
TEST_F(Bypass, MemoryThatNobodyUsesMayGoBeforeItIsThere) {
  std::vector<Buffer> buffers = settled(3);
  config.access_ns = 2'000'000;
  fake_cuda_change(&config);
  for (int round = 0; round < 20; ++round) {
    const Buffer unused = allocate(4 * kMiB);
    for (int i = 0; i < 10; ++i) {
      rewrite(stream, buffers[0], ++seed);
    }
    platform->memory().free(unused.address);
  }
  config.access_ns = 0;
  fake_cuda_change(&config);
  // What was freed last goes when the device has passed what was issued before that, which is known
  // once somebody has waited for it.
  synchronize(stream);
  EXPECT_TRUE(soon([&] {
    return platform->stats().used_bytes[static_cast<std::size_t>(Tier::kDevice)] <= 8 * kMiB;
  }));
  check_all(buffers);
}

// Others have the device's memory: what nobody wanted is no reason to make do with less.
class BypassBesideOthers : public Bypass {
 protected:
  void SetUp() override {
    config.device_bytes = 8 * kMiB;
    Bypass::SetUp();
  }
};

TEST_F(BypassBesideOthers, MemoryThatNobodyUsesIsLeftWhereTheDeviceHasNone) {
  std::vector<Buffer> buffers = settled(3);
  const Buffer unused = allocate(4 * kMiB);
  for (int i = 0; i < 100; ++i) {
    rewrite(stream, buffers[0], ++seed);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(platform->capacity_bytes(Tier::kDevice), options.device_bytes);
  EXPECT_THAT(warned, ::testing::IsEmpty());
  check_all(buffers);
  platform->memory().free(unused.address);
}

// Not where that would take it from anybody: what is alive comes first.
TEST_F(Bypass, WhatNobodyUsesTakesNobodysFrames) {
  std::vector<Buffer> buffers = settled(6);
  const Buffer unused = too_much();
  for (int i = 0; i < 100; ++i) {
    rewrite(stream, buffers[0], ++seed);
  }
  EXPECT_FALSE(is_bypassed());
  EXPECT_EQ(platform->stats().engine.evictions, 0U);
  check_all(buffers);
  platform->memory().free(unused.address);
}

TEST_F(Bypass, AFreeThatNobodyHandsOnEndsIt) {
  std::vector<Buffer> buffers = settled(6);
  rewrite(stream, buffers[5], ++seed);
  platform->memory().free(buffers[5].address);
  EXPECT_FALSE(is_bypassed());
  buffers.pop_back();
  check_all(buffers);
}

TEST_F(Bypass, AStreamThatIsDestroyedEndsIt) {
  std::vector<Buffer> buffers = settled(6);
  rewrite(other, buffers[0], ++seed);
  platform->streams().destroyed(other);
  EXPECT_FALSE(is_bypassed());
  synchronize(other);
  EXPECT_EQ(driver.stream_destroy(other), CuResult::kSuccess);
  check_all(buffers);
}

// What is needed beside the wait has its room, although the value is written only afterwards.
TEST_F(Bypass, AWaitForAValueEndsIt) {
  std::vector<Buffer> buffers = settled(6);
  std::uint64_t* const word = pinned(1);
  *word = 0;
  rewrite(other, buffers[0], ++seed);
  platform->streams().will_wait_for_value();
  platform->streams().waits_for_value(address_of(word), other);
  ASSERT_EQ(driver.stream_wait_value(other, address_of(word), 1, kCuWaitAtLeast),
            CuResult::kSuccess);
  EXPECT_FALSE(is_bypassed());
  Buffer more = too_much();
  fill(stream, more, ++seed);
  check(stream, more);
  synchronize(stream);
  EXPECT_GT(moved(Tier::kDevice, Tier::kHost), 0U);
  __atomic_store_n(word, 1, __ATOMIC_RELEASE);
  synchronize(other);
  check_all(buffers);
}

// What stands for calls gets its completion marker before the capture, which would take it for the
// graph's.
TEST_F(Bypass, ACaptureEndsItUntilItHasEnded) {
  std::vector<Buffer> buffers = settled(6);
  rewrite(stream, buffers[0], ++seed);
  rewrite(other, buffers[1], ++seed);
  captures = 1;
  platform->streams().watch_captures(captures);
  platform->streams().capture_begins();
  constexpr unsigned kRelaxed = 2;
  ASSERT_EQ(cuStreamBeginCapture_v2(stream, kRelaxed), CuResult::kSuccess);
  for (int i = 0; i < 20; ++i) {
    rewrite(other, buffers[1], ++seed);
    EXPECT_FALSE(is_bypassed(other));
  }
  platform->streams().before_wait(std::nullopt);
  Buffer more = too_much();
  fill(other, more, ++seed);
  synchronize(other);
  void* graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream, &graph), CuResult::kSuccess);
  std::size_t nodes = 0;
  EXPECT_EQ(cuGraphGetNodes(graph, nullptr, &nodes), CuResult::kSuccess);
  EXPECT_EQ(nodes, 0U);
  EXPECT_EQ(cuGraphDestroy(graph), CuResult::kSuccess);
  captures = 0;
  check_all(buffers);
  check(other, more);
  synchronize(other);
  for (int i = 0; i < 20; ++i) {
    rewrite(other, more, ++seed);
  }
  platform->memory().free(more.address);
  check_all(buffers);
}

TEST_F(Bypass, AfterACaptureItComesBack) {
  std::vector<Buffer> buffers = settled(6);
  captures = 1;
  platform->streams().watch_captures(captures);
  platform->streams().capture_begins();
  for (int i = 0; i < 20; ++i) {
    rewrite(stream, buffers[0], ++seed);
  }
  EXPECT_FALSE(is_bypassed());
  captures = 0;
  for (int i = 0; i < 20; ++i) {
    rewrite(stream, buffers[0], ++seed);
    synchronize(stream);
  }
  EXPECT_TRUE(is_bypassed());
  check_all(buffers);
}

// From then on the engine lets in no more than the policy wants, so a launch may wait although it
// has its room: what stands for calls must not come behind one.
TEST_F(Bypass, ItIsOverWhereMoreLivesThanFits) {
  std::vector<Buffer> buffers = settled(3);
  std::vector<Buffer> more;
  for (int i = 0; i < 6; ++i) {  // a little more
    more.push_back(allocate(2 * kMiB));
  }
  config.launch_ns = 10'000'000;
  fake_cuda_change(&config);
  for (Buffer& buffer : more) {
    fill(stream, buffer, ++seed);
  }
  platform->memory().free(buffers.back().address);
  buffers.pop_back();
  config.launch_ns = 0;
  fake_cuda_change(&config);
  check_all(buffers);
  check_all(more);
}

// One thread's call is under way on a blocking stream, another's has no room on the null stream,
// which waits for it: no stream wait comes between.
TEST_F(Bypass, NoGateIsPutBeforeACallThatTheDeviceOrdersBehindIt) {
  CuStream blocking = nullptr;
  ASSERT_EQ(driver.stream_create(&blocking, kCuStreamDefault, 0), CuResult::kSuccess);
  std::vector<Buffer> buffers = settled(6);
  rewrite(blocking, buffers[5], ++seed);
  synchronize(blocking);
  std::atomic<bool> begun{false};
  const std::uint64_t last = seed + 1000;
  std::thread late([&] {
    (void)driver.context_set_current(primary);
    ASSERT_TRUE(platform->bypass().begin_bypassed(blocking));
    begun = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Buffer& buffer = buffers[3];
    EXPECT_EQ(launch(test::kernels().rewrite, blocking, buffer.address, buffer.words, buffer.seed,
                     last, address_of(wrong)),
              CuResult::kSuccess);
    buffer.seed = last;
    platform->bypass().end_bypassed();
  });
  while (!begun) {
    std::this_thread::yield();
  }
  Buffer more = too_much();
  fill(nullptr, more, ++seed);
  late.join();
  synchronize(nullptr);
  synchronize(blocking);
  check_all(buffers);
  check(stream, more);
  synchronize(stream);
  EXPECT_EQ(driver.stream_destroy(blocking), CuResult::kSuccess);
}

// Destructors of a thread's objects may make calls when what it remembers of calls has gone.
TEST_F(Bypass, AThreadThatEndsIsToldOf) {
  std::vector<Buffer> buffers = settled(6);
  struct Last {
    std::function<void()> call;
    Last() = default;
    Last(const Last&) = delete;
    Last& operator=(const Last&) = delete;
    ~Last() { call(); }
  };
  bool unseen = true;
  std::thread([&] {
    static thread_local Last last;  // made before what is remembered of calls
    last.call = [&] { unseen = is_bypassed(other); };
    EXPECT_TRUE(is_bypassed(other));
  }).join();
  EXPECT_FALSE(unseen);
  EXPECT_TRUE(is_bypassed(other));
  check_all(buffers);
}

TEST_F(Bypass, ASmallerBudgetEndsIt) {
  std::vector<Buffer> buffers = settled(6);
  for (Buffer& buffer : buffers) {
    rewrite(stream, buffer, ++seed);
  }
  ASSERT_TRUE(platform->set_device_capacity(8 * kMiB));
  check_all(buffers);
  EXPECT_GT(moved(Tier::kDevice, Tier::kHost), 0U);
}

TEST_F(Bypass, BesideWhatHasNoRoomNobodyIsQuiet) {
  Buffer large = allocate(12 * kMiB);
  Buffer more = allocate(12 * kMiB);
  for (int i = 0; i < 30; ++i) {
    fill(stream, i % 2 == 0 ? large : more, ++seed);
    EXPECT_FALSE(is_bypassed());
  }
  check_all({large, more});
}

// Each thread of the program remembers which stream it has told of.
TEST_F(Bypass, ThreadsComeAndGo) {
  std::vector<Buffer> buffers = settled(6);
  for (int round = 0; round < 8; ++round) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        (void)driver.context_set_current(primary);
        CuStream mine = nullptr;
        ASSERT_EQ(driver.stream_create(&mine, kCuStreamNonBlocking, 0), CuResult::kSuccess);
        for (std::uint64_t k = 1; k <= 20; ++k) {
          rewrite(mine, buffers[i], 1000 * k + i);
        }
        synchronize(mine);
        platform->streams().destroyed(mine);
        EXPECT_EQ(driver.stream_destroy(mine), CuResult::kSuccess);
      });
    }
    for (std::thread& it : threads) {
      it.join();
    }
    Buffer more = too_much();
    fill(stream, more, ++seed);
    synchronize(stream);
    platform->memory().free(more.address);
  }
  check_all(buffers);
}

}  // namespace
}  // namespace spillway::cuda
