// Where pages are after a move, whatever the kernel says: also while the system compacts its
// memory, for which it moves the same pages elsewhere.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "platform/common/process/descriptor.h"
#include "platform/common/process/reservation.h"
#include "platform/host/faults/userfault.h"
#include "platform/host/pages/frame_pool.h"
#include "platform/host/pages/page_tables.h"

namespace spillway::host {
namespace {

// Compacts the system's memory until it is destroyed, where this process may.
class Compacting {
 public:
  Compacting() : file_(::open("/proc/sys/vm/compact_memory", O_WRONLY | O_CLOEXEC)) {
    if (works()) {
      thread_ = std::thread([this] {
        while (!stop_) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));  // there are other tests
          (void)works();
        }
      });
    }
  }
  Compacting(const Compacting&) = delete;
  Compacting& operator=(const Compacting&) = delete;
  ~Compacting() {
    stop_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  // Once.
  [[nodiscard]] bool works() const { return ::write(file_.get(), "1", 1) == 1; }

 private:
  Descriptor file_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class UserfaultMove : public ::testing::Test {
 protected:
  static constexpr std::size_t kBlocks = 16;
  static constexpr std::size_t kPages = kBlockBytes / kPageBytes;

  void SetUp() override {
    const UserfaultSupport support = userfault_support();
    if (!support.write_protection || !support.moves) {
      GTEST_SKIP() << "pages cannot be moved; " << support.reason;
    }
    userfault_.emplace(std::move(Userfault::open().value()));
    addresses_.emplace(std::move(Reservation::make(2 * kBlocks * kBlockBytes).value()));
    ::madvise(addresses_->start(), addresses_->bytes(), MADV_NOHUGEPAGE);
    ASSERT_TRUE(userfault_->watch(addresses_->start(), addresses_->bytes()));
  }
  char* block(std::size_t number) { return addresses_->start() + number * kBlockBytes; }
  // Every page says which one it is.
  void fill(std::size_t number) {
    std::array<std::uint32_t, kPageBytes / 4> page{};
    for (std::size_t i = 0; i < kPages; ++i) {
      page.front() = page.back() = static_cast<std::uint32_t>(number * kPages + i);
      ASSERT_EQ(userfault_->copy(block(number) + i * kPageBytes, page.data(), kPageBytes, true), 0);
    }
  }
  static std::size_t missing(const char* start) {
    const PageTables pages(start, kBlockBytes);
    std::size_t count = 0;
    for (std::size_t page = 0; page < pages.pages(); ++page) {
      count += pages.has(page) ? 0U : 1U;
    }
    return count;
  }
  // Of the pages that are there: others cannot be looked at, nobody would answer.
  static std::size_t wrong(const char* start, std::size_t number) {
    const PageTables there(start, kBlockBytes);
    std::size_t count = 0;
    for (std::size_t i = 0; i < kPages; ++i) {
      if (there.has(i)) {
        std::uint32_t first = 0;
        std::uint32_t last = 0;
        std::memcpy(&first, start + i * kPageBytes, sizeof first);
        std::memcpy(&last, start + (i + 1) * kPageBytes - sizeof last, sizeof last);
        count += first == number * kPages + i && last == first ? 0 : 1;
      }
    }
    return count;
  }

  std::optional<Userfault> userfault_;
  std::optional<Reservation> addresses_;
};

TEST_F(UserfaultMove, AllOfItIsMovedWhileTheSystemCompacts) {
  constexpr std::chrono::seconds kLong{3};
  const Compacting compacting;
  if (!compacting.works()) {
    GTEST_SKIP() << "only root can have the system compact its memory";
  }
  const auto end = std::chrono::steady_clock::now() + kLong;
  while (std::chrono::steady_clock::now() < end) {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      ASSERT_NO_FATAL_FAILURE(fill(i));
    }
    for (std::size_t i = 0; i < kBlocks; ++i) {
      ASSERT_EQ(userfault_->move(block(kBlocks + i), block(i), kBlockBytes), 0);
      ASSERT_EQ(missing(block(i)), kPages);
      ASSERT_EQ(missing(block(kBlocks + i)), 0U);
      ASSERT_EQ(wrong(block(kBlocks + i), i), 0U);
    }
    ASSERT_EQ(::madvise(addresses_->start(), addresses_->bytes(), MADV_DONTNEED), 0);
  }
}

// With a page missing near the end: what has moved until then goes back.
TEST_F(UserfaultMove, NothingIsMovedWhereAPageIsMissingWhileTheSystemCompacts) {
  constexpr std::chrono::seconds kLong{3};
  const Compacting compacting;  // without it the test is a weaker one
  const auto end = std::chrono::steady_clock::now() + kLong;
  for (std::size_t round = 0; std::chrono::steady_clock::now() < end; ++round) {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      ASSERT_NO_FATAL_FAILURE(fill(i));
      ASSERT_EQ(
          ::madvise(block(i) + (kPages - 1 - round % 9) * kPageBytes, kPageBytes, MADV_DONTNEED),
          0);
    }
    for (std::size_t i = 0; i < kBlocks; ++i) {
      ASSERT_EQ(userfault_->move(block(kBlocks + i), block(i), kBlockBytes), ENOENT);
      ASSERT_EQ(missing(block(i)), 1U);
      ASSERT_EQ(wrong(block(i), i), 0U);
      ASSERT_EQ(missing(block(kBlocks + i)), kPages);
    }
    ASSERT_EQ(::madvise(addresses_->start(), addresses_->bytes(), MADV_DONTNEED), 0);
  }
}

// Pages that are there twice are nobody's mistake but ours: none is taken for one that has moved.
TEST_F(UserfaultMove, NothingIsMovedWhereSomethingIsThere) {
  ASSERT_NO_FATAL_FAILURE(fill(0));
  ASSERT_NO_FATAL_FAILURE(fill(1));
  ASSERT_EQ(::madvise(block(1), kMiB, MADV_DONTNEED), 0);
  EXPECT_EQ(userfault_->move(block(1), block(0), kBlockBytes), EEXIST);
  EXPECT_EQ(missing(block(0)), 0U);
  EXPECT_EQ(wrong(block(0), 0), 0U);
  EXPECT_EQ(missing(block(1)), kPages / 2);
  EXPECT_EQ(wrong(block(1), 1), 0U);
}

// Whoever takes a frame writes it, and nobody would answer a write to a protected page.
TEST_F(UserfaultMove, WhatWasProtectedCanBeWrittenInAPool) {
  const std::unique_ptr<FramePool> pool = FramePool::create(*userfault_, 4);
  ASSERT_NE(pool, nullptr);
  ASSERT_NO_FATAL_FAILURE(fill(0));
  ASSERT_EQ(userfault_->protect(block(0), kBlockBytes), 0);
  (void)::madvise(block(0), kMiB, MADV_PAGEOUT);  // where there is swap
  ASSERT_TRUE(pool->recover(block(0)));
  EXPECT_EQ(missing(block(0)), kPages);
  auto* const frame = static_cast<char*>(pool->take());
  ASSERT_NE(frame, nullptr);
  EXPECT_EQ(wrong(frame, 0), 0U);
  std::memset(frame, 7, kBlockBytes);
  ASSERT_EQ(userfault_->move(block(1), frame, kBlockBytes), 0);
  std::memset(block(1), 8, kBlockBytes);
}

}  // namespace
}  // namespace spillway::host
