// While everything fits nobody is told of launches, and nothing is lost when that ends.
// docs/quiet.md.
#include <atomic>
#include <thread>
#include <vector>

#include "platform/cuda/cuda_world.h"

namespace spillway::cuda {
namespace {

class Quiet : public CudaWorld {
 protected:
  void SetUp() override {
    options.quiet_after = 4;
    options.quiet_after_at_most = 4;
    open();
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
    for (int i = 0; i < 100 && platform->unseen_calls() == 0; ++i) {
      rewrite(stream, buffers[0], ++seed);
    }
    synchronize(stream);
    EXPECT_TRUE(is_quiet());
    return buffers;
  }
  [[nodiscard]] bool is_quiet() const { return is_quiet(stream); }
  [[nodiscard]] bool is_quiet(CuStream on) const {
    const bool quiet = platform->begin_unseen(on);
    if (quiet) {
      platform->end_unseen();
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

  CuStream stream = nullptr;
  CuStream other = nullptr;
  std::uint64_t seed = 0;
};

TEST_F(Quiet, LaunchesAreNotToldOf) {
  std::vector<Buffer> buffers = settled(6);
  const std::uint64_t told = platform->stats().engine.launches - platform->unseen_calls();
  const std::uint64_t unseen = platform->unseen_calls();
  for (int i = 0; i < 200; ++i) {
    rewrite(i % 3 == 0 ? other : stream, buffers[static_cast<std::size_t>(i) % 6], ++seed);
    synchronize(stream);
    synchronize(other);
  }
  EXPECT_EQ(platform->unseen_calls(), unseen + 200);
  EXPECT_EQ(platform->stats().engine.launches - platform->unseen_calls(), told);
  check_all(buffers);
}

TEST_F(Quiet, WhatWasWrittenUnseenIsThereAfterwards) {
  std::vector<Buffer> buffers = settled(6);
  for (Buffer& buffer : buffers) {
    rewrite(stream, buffer, ++seed);
  }
  Buffer more = too_much();
  fill(stream, more, ++seed);
  EXPECT_FALSE(is_quiet());
  buffers.push_back(more);
  check_all(buffers);
  EXPECT_GT(moved(Tier::kDevice, Tier::kHost), 0U);
}

// It came from below, so it had a copy there, which was right until somebody wrote.
TEST_F(Quiet, ACopyBelowIsNotTakenForWhatWasWrittenUnseen) {
  std::vector<Buffer> buffers = settled(6);
  for (int round = 0; round < 3; ++round) {
    Buffer more = too_much();
    fill(stream, more, ++seed);
    for (const Buffer& buffer : buffers) {
      check(stream, buffer);
    }
    synchronize(stream);
    platform->free(more.address);
    for (int i = 0; i < 20; ++i) {
      for (Buffer& buffer : buffers) {
        rewrite(stream, buffer, ++seed);
      }
    }
  }
  check_all(buffers);
}

TEST_F(Quiet, NothingLeavesBeforeTheDeviceHasPassedWhatWasUnseen) {
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

// A thread has begun a call, and issues it only when the quiet is over.
TEST_F(Quiet, ACallThatIsUnderWayWhenItEndsIsWaitedFor) {
  std::vector<Buffer> buffers = settled(6);
  ASSERT_TRUE(platform->begin_unseen(stream));  // known from now on, as in any thread's second call
  platform->end_unseen();
  std::atomic<bool> begun{false};
  std::atomic<bool> go{false};
  std::thread late([&] {
    (void)driver.context_set_current(primary);
    ASSERT_TRUE(platform->begin_unseen(other));
    begun = true;
    while (!go) {
      std::this_thread::yield();
    }
    Buffer& buffer = buffers[3];
    EXPECT_EQ(launch(test::kernels().rewrite, other, buffer.address, buffer.words, buffer.seed,
                     seed + 1000, address_of(wrong)),
              CuResult::kSuccess);
    buffer.seed = seed + 1000;
    platform->end_unseen();
  });
  while (!begun) {
    std::this_thread::yield();
  }
  Buffer more = too_much();
  fill(stream, more, ++seed);  // leaves the quiet, and stands behind a gate
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
TEST_F(Quiet, MemoryIsHandedOnWithoutAWord) {
  std::vector<Buffer> buffers = settled(6);
  const std::uint64_t unseen = platform->unseen_calls();
  for (int i = 0; i < 50; ++i) {
    platform->retire(buffers[1].address);
    ASSERT_TRUE(platform->reuse(buffers[1].address));
    fill(stream, buffers[1], ++seed);
    rewrite(stream, buffers[1], ++seed);
  }
  EXPECT_EQ(platform->unseen_calls(), unseen + 100);
  check_all(buffers);
}

TEST_F(Quiet, WhatDiedMeanwhileIsDeadAfterwardsAndDoesNotMove) {
  std::vector<Buffer> buffers = settled(6);
  const std::vector<Buffer> kept = {buffers[0], buffers[1]};
  for (std::size_t i = 2; i < buffers.size(); ++i) {
    platform->retire(buffers[i].address);
  }
  Buffer more = too_much();
  fill(stream, more, ++seed);
  check_all(kept);
  EXPECT_EQ(moved(Tier::kDevice, Tier::kHost), 0U);
}

TEST_F(Quiet, NewMemoryIsToldOfUntilItIsThere) {
  std::vector<Buffer> buffers = settled(3);
  Buffer fresh = allocate(2 * kMiB);
  EXPECT_FALSE(is_quiet());
  fill(stream, fresh, ++seed);
  platform->wait_until_idle();
  rewrite(stream, buffers[0], ++seed);
  EXPECT_TRUE(is_quiet());
  buffers.push_back(fresh);
  check_all(buffers);
}

TEST_F(Quiet, AFreeThatNobodyHandsOnEndsIt) {
  std::vector<Buffer> buffers = settled(6);
  rewrite(stream, buffers[5], ++seed);
  platform->free(buffers[5].address);
  EXPECT_FALSE(is_quiet());
  buffers.pop_back();
  check_all(buffers);
}

TEST_F(Quiet, AStreamThatIsDestroyedEndsIt) {
  std::vector<Buffer> buffers = settled(6);
  rewrite(other, buffers[0], ++seed);
  platform->destroyed(other);
  EXPECT_FALSE(is_quiet());
  synchronize(other);
  EXPECT_EQ(driver.stream_destroy(other), CuResult::kSuccess);
  check_all(buffers);
}

TEST_F(Quiet, AWaitForAValueEndsIt) {
  std::vector<Buffer> buffers = settled(6);
  platform->waits_for_value(address_of(wrong), other);
  EXPECT_FALSE(is_quiet());
  check_all(buffers);
}

TEST_F(Quiet, ASmallerBudgetEndsIt) {
  std::vector<Buffer> buffers = settled(6);
  for (Buffer& buffer : buffers) {
    rewrite(stream, buffer, ++seed);
  }
  ASSERT_TRUE(platform->set_device_capacity(8 * kMiB));
  check_all(buffers);
  EXPECT_GT(moved(Tier::kDevice, Tier::kHost), 0U);
}

TEST_F(Quiet, BesideWhatHasNoRoomNobodyIsQuiet) {
  Buffer large = allocate(12 * kMiB);
  Buffer more = allocate(12 * kMiB);
  for (int i = 0; i < 30; ++i) {
    fill(stream, i % 2 == 0 ? large : more, ++seed);
    EXPECT_FALSE(is_quiet());
  }
  check_all({large, more});
}

// Each thread of the program remembers which stream it has told of.
TEST_F(Quiet, ThreadsComeAndGo) {
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
        platform->destroyed(mine);
        EXPECT_EQ(driver.stream_destroy(mine), CuResult::kSuccess);
      });
    }
    for (std::thread& it : threads) {
      it.join();
    }
    Buffer more = too_much();
    fill(stream, more, ++seed);
    synchronize(stream);
    platform->free(more.address);
  }
  check_all(buffers);
}

}  // namespace
}  // namespace spillway::cuda
