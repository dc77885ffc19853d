// The threads that carry transfers out: what goes first, what passes what, and how failures end.
#include "platform/common/storage/transfer_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "platform/common/transfer_world.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// While one copy is held up, others wait behind it.
TEST(TransferWorkers, FaultsGoBeforeEvictions) {
  TransferWorld world;
  world.carrier.hold(1);
  world.add(1, Cause::kFault);
  world.carrier.wait_for_copy(1);
  world.add(2, Cause::kEvict);
  world.add(3, Cause::kFault);
  world.add(4, Cause::kEvict);
  world.add(5, Cause::kFault);
  world.carrier.let_go(1);
  EXPECT_THAT(world.carrier.order_of_ends(5), ElementsAre(1, 3, 5, 2, 4));
}

TEST(TransferWorkers, PrefetchesGoBeforeCopiesAheadOfNeed) {
  TransferWorld world;
  world.carrier.hold(1);
  world.add(1, Cause::kPreEvict);
  world.carrier.wait_for_copy(1);
  world.add(2, Cause::kPreEvict);
  world.add(3, Cause::kPrefetch);
  world.carrier.let_go(1);
  EXPECT_THAT(world.carrier.order_of_ends(3), ElementsAre(1, 3, 2));
}

TEST(TransferWorkers, WhatSomebodyWaitsForDoesNotWaitForWhatNobodyDoes) {
  TransferWorld world;
  world.carrier.hold(1);
  world.add(1, Cause::kPrefetch);
  world.carrier.wait_for_copy(1);
  world.add(2, Cause::kFault);
  world.add(3, Cause::kEvict);
  EXPECT_EQ(world.carrier.wait_for_ends(2).size(), 2U);
  world.carrier.let_go(1);
  EXPECT_EQ(world.carrier.order_of_ends(3).back(), 1U);
}

// A thread stops at a block that stands in line among prefetches.
TEST(TransferWorkers, WhatIsHurriedLeavesTheLineOfPrefetches) {
  TransferWorld world;
  world.carrier.hold(1);
  world.add(1, Cause::kPrefetch);
  world.carrier.wait_for_copy(1);
  world.add(2, Cause::kPrefetch);
  world.add(3, Cause::kPrefetch);
  world.workers.hurry(3);
  world.workers.hurry(77);  // nobody's
  EXPECT_THAT(world.carrier.order_of_ends(1), ElementsAre(3));
  world.carrier.let_go(1);
  EXPECT_THAT(world.carrier.order_of_ends(3), ElementsAre(3, 1, 2));
}

TEST(TransferWorkers, BlocksFromStorageAreCopiedWhenAllOfThemHaveBeenRead) {
  TransferWorld world;
  world.add_read(1, Cause::kFault, {4, 5, 6});
  world.requests.wait_for(3);
  for (const char value : {char{6}, char{5}}) {  // the last one first
    world.requests.answer(world.requests.count() - 1, 0, value);
    EXPECT_THAT(world.carrier.copied(), IsEmpty());
  }
  world.requests.answer(0, 0, 4);
  EXPECT_THAT(world.carrier.order_of_ends(1), ElementsAre(1));
  EXPECT_THAT(world.carrier.staged(), ElementsAre(4, 5, 6));
  EXPECT_EQ(world.workers.copied_bytes(), 3 * kPageBytes);
}

// Requests that are under way hold nobody up.
TEST(TransferWorkers, OthersPassWhatIsBeingRead) {
  TransferWorld world;
  world.add_read(1, Cause::kFault, {1});
  world.requests.wait_for(1);
  world.add(2, Cause::kFault);
  world.add_read(3, Cause::kFault, {3});
  world.requests.wait_for(2);
  world.requests.answer(1, 0, 3);
  EXPECT_THAT(world.carrier.order_of_ends(2), ElementsAre(2, 3));
  world.requests.answer(0, 0, 1);
  EXPECT_THAT(world.carrier.order_of_ends(3), ElementsAre(2, 3, 1));
}

TEST(TransferWorkers, BlocksGoToStorageFromWhereTheyLie) {
  TransferWorld world;
  world.add_write(1, Cause::kEvict, {7, 9});
  world.requests.wait_for(2);
  const auto job = TransferWorld::job(1, Cause::kEvict, Tier::kDevice, Tier::kStorage, {7, 9});
  for (std::size_t i = 0; i < 2; ++i) {
    const IoRequest request = world.requests.take(0);
    EXPECT_TRUE(request.write);
    EXPECT_EQ(request.memory, world.carrier.source_of(*job, i));
    EXPECT_EQ(request.offset, job->parts[i].storage_offset);
    request.done(0);
  }
  EXPECT_THAT(world.carrier.order_of_ends(1), ElementsAre(1));
  EXPECT_THAT(world.carrier.copied(), IsEmpty());
}

// One of several requests fails: the transfer ends when the last is over, and nothing is copied.
TEST(TransferWorkers, ARequestThatFailsFailsItsTransferWhenAllAreOver) {
  TransferWorld world;
  world.add_read(1, Cause::kPrefetch, {4, 5});
  world.requests.wait_for(2);
  world.requests.answer(1, EIO);
  world.add(2, Cause::kPrefetch);
  EXPECT_THAT(world.carrier.order_of_ends(1), ElementsAre(2));
  world.requests.answer(0, 0, 4);
  EXPECT_THAT(world.carrier.wait_for_ends(2).back(), (FakeCarrier::Ended{.id = 1, .error = EIO}));
  EXPECT_THAT(world.carrier.copied(), ElementsAre(2));
  EXPECT_THAT(world.failures.with_cause({ErrorCode::kIo, "given up"}).message,
              HasSubstr("cannot read 4096 bytes at offset 20480: Input/output error"));
}

TEST(TransferWorkers, AWriteThatFailsSaysWhatItWasToWrite) {
  TransferWorld world;
  world.add_write(1, Cause::kPreEvict, {3});
  world.requests.wait_for(1);
  world.requests.answer(0, ENOSPC);
  EXPECT_THAT(world.carrier.wait_for_ends(1),
              ElementsAre(FakeCarrier::Ended{.id = 1, .error = ENOSPC}));
  EXPECT_THAT(world.failures.with_cause({ErrorCode::kIo, "given up"}).message,
              HasSubstr("cannot write 4096 bytes at offset 12288: No space left"));
}

// There was no place for it: it ends like any other, through the queue, and asks nobody.
TEST(TransferWorkers, AJobThatHasFailedBeforeItStartsMovesNothing) {
  TransferWorld world;
  for (const Tier to : {Tier::kHost, Tier::kStorage}) {
    const auto job = TransferWorld::job(1, Cause::kEvict, Tier::kDevice, to, {1});
    job->error = ENOSPC;
    world.workers.add(job);
  }
  EXPECT_THAT(world.carrier.wait_for_ends(2),
              ElementsAre(FakeCarrier::Ended{.id = 1, .error = ENOSPC},
                          FakeCarrier::Ended{.id = 1, .error = ENOSPC}));
  EXPECT_THAT(world.carrier.copied(), IsEmpty());
  EXPECT_EQ(world.requests.count(), 0U);
  EXPECT_EQ(world.workers.copied_bytes(), 0U);
}

// What has been read into is free again, after success as after failure.
TEST(TransferWorkers, StagingMemoryComesBack) {
  TransferWorld world;
  for (const int error : {0, EIO}) {
    world.add_read(1, Cause::kFault, {1, 2});
    world.requests.wait_for(2);
    const IoRequest first = world.requests.take(0);
    const IoRequest second = world.requests.take(0);
    EXPECT_EQ(static_cast<char*>(second.memory), static_cast<char*>(first.memory) + kPageBytes);
    first.done(error);
    second.done(0);
    (void)world.carrier.wait_for_ends(error == 0 ? 1 : 2);
    char* const buffer = world.staging.take();
    EXPECT_EQ(buffer, first.memory);
    world.staging.give_back(buffer);
  }
}

// Answers some requests at once, within submit, and the others late, by a thread of their own; one
// in eight fails.
class UnsteadyIo final : public BlockIo {
 public:
  ~UnsteadyIo() override {
    for (std::thread& thread : late_) thread.join();
  }
  void submit(IoRequest request) override {
    const std::scoped_lock lock(mutex_);
    const int error = rng_.chance(0.125) ? EIO : 0;
    if (rng_.chance(0.7)) {
      request.done(error);
    } else {
      late_.emplace_back([done = std::move(request.done), error] {
        std::this_thread::yield();
        done(error);
      });
    }
  }

 private:
  std::mutex mutex_;
  Rng rng_{1};
  std::vector<std::thread> late_;
};

TEST(TransferWorkers, WhateverManyThreadsAddEndsOnce) {
  TransferWorld world(
      {}, [](const std::unique_ptr<BlockIo>& /*real*/) { return std::make_unique<UnsteadyIo>(); });
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEach = 250;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(t);
      for (std::size_t i = 0; i < kEach; ++i) {
        const TransferId id = t * kEach + i;
        const auto block = static_cast<BlockId>(id % 60);
        switch (rng.below(4)) {
          case 0:
            world.add_read(id, Cause::kPrefetch, {block, block + 1});
            break;
          case 1:
            world.add_write(id, Cause::kEvict, {block, block + 1});
            break;
          default:
            world.workers.add(TransferWorld::job(id, static_cast<Cause>(rng.below(4)), Tier::kHost,
                                                 Tier::kDevice, {block}));
        }
        world.workers.hurry(static_cast<BlockId>(rng.below(60)));
        (void)world.workers.copied_bytes();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<FakeCarrier::Ended> ended = world.carrier.wait_for_ends(kThreads * kEach);
  std::vector<int> ends(kThreads * kEach, 0);
  int failed = 0;
  for (const FakeCarrier::Ended& one : ended) {
    ++ends[one.id];
    failed += one.error == 0 ? 0 : 1;
  }
  EXPECT_EQ(ends, std::vector<int>(kThreads * kEach, 1));
  EXPECT_GT(failed, 0);
  EXPECT_GT(world.workers.processor_ns(), 0);
}

}  // namespace
}  // namespace spillway
