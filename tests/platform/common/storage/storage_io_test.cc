// The swap file at work: how busy it is, what goes wrong in words, and reading without a queue.
#include "platform/common/storage/storage_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "platform/common/held_io.h"
#include "platform/common/process/clock.h"

namespace spillway {
namespace {

struct FreePages {
  void operator()(void* memory) const { std::free(memory); }  // NOLINT(*-no-malloc)
};
using Pages = std::unique_ptr<char, FreePages>;

Pages aligned_pages(Bytes bytes) {
  return Pages(static_cast<char*>(std::aligned_alloc(kPageBytes, bytes)));
}

TEST(StorageIo, MeasuresWhatHasMovedAndWhileAnythingWasUnderWay) {
  HeldRequests requests;
  StorageIo io(test_swap_file(), 4, held_by(requests));
  const Pages memory = aligned_pages(kBlockBytes);
  std::vector<int> answers;
  const auto submit = [&](bool write, Bytes bytes) {
    io.submit({.write = write,
               .memory = memory.get(),
               .bytes = bytes,
               .offset = 0,
               .done = [&](int error) { answers.push_back(error); }});
  };
  const TimeNs begin_ns = now_ns();
  submit(false, kBlockBytes);
  submit(false, kPageBytes);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  requests.answer(0, 0);
  EXPECT_EQ(io.meters()[0].busy_ns, 0);  // one is under way still
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  requests.answer(0, EIO);  // nothing has moved
  EXPECT_EQ(answers, (std::vector<int>{0, EIO}));
  const StorageIo::Meter reads = io.meters()[0];
  EXPECT_EQ(reads.bytes, kBlockBytes);
  EXPECT_GE(reads.busy_ns, 10 * kNsPerMs);
  EXPECT_LE(reads.busy_ns, now_ns() - begin_ns);
  EXPECT_EQ(io.meters()[1].bytes, 0U);

  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(io.meters()[0].busy_ns, reads.busy_ns);
  submit(true, kPageBytes);
  requests.answer(0, 0);
  EXPECT_EQ(io.meters()[1].bytes, kPageBytes);
  EXPECT_EQ(io.meters()[0].bytes, kBlockBytes);
}

TEST(StorageIo, HandsRequestsOnAsTheyAre) {
  HeldRequests requests;
  StorageIo io(test_swap_file(), 4, held_by(requests));
  const Pages memory = aligned_pages(kBlockBytes);
  int calls = 0;
  io.submit({.write = true,
             .memory = memory.get(),
             .bytes = kBlockBytes,
             .offset = 6 * kMiB,
             .done = [&](int) { ++calls; }});
  ASSERT_EQ(requests.count(), 1U);
  const IoRequest request = requests.take(0);
  EXPECT_TRUE(request.write);
  EXPECT_EQ(request.memory, memory.get());
  EXPECT_EQ(request.bytes, kBlockBytes);
  EXPECT_EQ(request.offset, 6 * kMiB);
  request.done(0);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(io.bytes(), 64 * kMiB);
}

TEST(StorageIo, SaysWhatWentWrongWhere) {
  const StorageIo io(test_swap_file(), 1, {});
  EXPECT_EQ(io.error_text(true, 4096, 8192, ENOSPC),
            std::string(SPILLWAY_SOURCE_DIR) +
                ": cannot write 4096 bytes at offset 8192: No space left on device");
  EXPECT_THAT(io.error_text(false, 1, 2, EIO),
              testing::HasSubstr("cannot read 1 bytes at offset 2"));
}

// For who must not wait behind others' requests: it is read by the calling thread.
TEST(StorageIo, ReadsNowWhatHasBeenWritten) {
  StorageIo io(test_swap_file(), 4, {});
  const Pages memory = aligned_pages(kBlockBytes);
  std::memset(memory.get(), 5, kBlockBytes);
  std::latch written(1);
  int answer = -1;
  io.submit({.write = true,
             .memory = memory.get(),
             .bytes = kBlockBytes,
             .offset = 2 * kMiB,
             .done = [&](int error) {
               answer = error;
               written.count_down();
             }});
  written.wait();
  ASSERT_EQ(answer, 0);
  std::memset(memory.get(), 0, kBlockBytes);
  EXPECT_EQ(io.read_now(memory.get(), kBlockBytes, 2 * kMiB), 0);
  EXPECT_TRUE(std::all_of(memory.get(), memory.get() + kBlockBytes, [](char c) { return c == 5; }));
  // Where the file ends, and half-way behind it.
  EXPECT_EQ(io.read_now(memory.get(), kPageBytes, 32 * kMiB), EIO);
  EXPECT_EQ(io.read_now(memory.get(), kBlockBytes, 3 * kMiB), EIO);
  EXPECT_EQ(io.read_now(nullptr, kPageBytes, 2 * kMiB), EFAULT);
  EXPECT_EQ(io.meters()[0].bytes, 0U);
}

// Threads of the program that write, read back and ask, all at once.
TEST(StorageIo, ServesManyThreads) {
  StorageIo io(test_swap_file(), 4, {});
  constexpr int kThreads = 4;
  constexpr int kRounds = 40;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const Pages memory = aligned_pages(kPageBytes);
      for (int round = 0; round < kRounds; ++round) {
        const auto value = static_cast<char>(16 * t + round % 16);
        for (const bool write : {true, false}) {
          std::memset(memory.get(), write ? value : 0, kPageBytes);
          std::latch done(1);
          io.submit({.write = write,
                     .memory = memory.get(),
                     .bytes = kPageBytes,
                     .offset = static_cast<std::uint64_t>(t) * kPageBytes,
                     .done = [&](int error) {
                       wrong += error == 0 ? 0 : 1;
                       done.count_down();
                     }});
          done.wait();
          (void)io.meters();
        }
        wrong += memory.get()[kPageBytes - 1] == value ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (const StorageIo::Meter& meter : io.meters()) {
    EXPECT_EQ(meter.bytes, kThreads * kRounds * kPageBytes);
    EXPECT_GT(meter.busy_ns, 0);
  }
}

}  // namespace
}  // namespace spillway
