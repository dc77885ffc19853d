// Memory that blocks arrive in from storage: aligned, shared by small blocks, used again.
#include "platform/common/storage/staging_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace spillway {
namespace {

std::uintptr_t number_of(const char* place) {
  return reinterpret_cast<std::uintptr_t>(place);  // NOLINT(*-reinterpret-cast): to see alignment
}

TEST(StagingPool, BuffersAreAlignedAndUsedAgain) {
  StagingPool pool;
  char* const first = pool.take();
  char* const second = pool.take();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(first, second);
  EXPECT_EQ(number_of(first) % kPageBytes, 0U);
  std::memset(first, 1, kBlockBytes);
  std::memset(second, 2, kBlockBytes);
  EXPECT_EQ(first[kBlockBytes - 1], 1);
  pool.give_back(first);
  EXPECT_EQ(pool.take(), first);
  pool.give_back(first);
  pool.give_back(second);
}

// In order, none over another, none over a buffer's end, each on a page as direct I/O wants.
TEST(StagingPool, BlocksShareAsFewBuffersAsHoldThem) {
  StagingPool pool;
  std::vector<char*> buffers;
  const std::vector<Bytes> sizes{kMiB,       kPageBytes, 5 * kKiB,    kMiB - 16 * kKiB,
                                 kPageBytes, kPageBytes, kBlockBytes, kPageBytes};
  const std::vector<char*> parts = pool.take_for(sizes, buffers);
  ASSERT_EQ(parts.size(), sizes.size());
  EXPECT_EQ(buffers.size(), 4U);  // the first five blocks, one, the whole one, the last
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(number_of(parts[i]) % kPageBytes, 0U);
    const bool inside = std::ranges::any_of(buffers, [&](const char* buffer) {
      return parts[i] >= buffer && parts[i] + sizes[i] <= buffer + kBlockBytes;
    });
    EXPECT_TRUE(inside) << i;
    for (std::size_t other = 0; other < i; ++other) {
      EXPECT_TRUE(parts[i] + sizes[i] <= parts[other] || parts[other] + sizes[other] <= parts[i]);
    }
  }
  for (char* const buffer : buffers) pool.give_back(buffer);
}

TEST(StagingPool, AddsToTheBuffersThatAreThere) {
  StagingPool pool;
  std::vector<char*> buffers;
  const std::vector<char*> first = pool.take_for({kPageBytes}, buffers);
  const std::vector<char*> second = pool.take_for({kPageBytes}, buffers);
  EXPECT_EQ(buffers.size(), 2U);
  EXPECT_NE(first.at(0), second.at(0));
  EXPECT_TRUE(pool.take_for({}, buffers).empty());
  EXPECT_EQ(buffers.size(), 2U);
  for (char* const buffer : buffers) pool.give_back(buffer);
}

// Nobody waits for anybody's buffer, and none is two threads' at a time.
TEST(StagingPool, ManyThreadsShareNoBuffer) {
  StagingPool pool;
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        char* const buffer = pool.take();
        *buffer = static_cast<char>(t);
        std::this_thread::yield();
        wrong[t] += *buffer == static_cast<char>(t) ? 0 : 1;
        pool.give_back(buffer);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace spillway
