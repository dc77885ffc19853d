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
#include <cstring>
#include <optional>
#include <thread>

#include "platform/common/descriptor.h"
#include "platform/common/reservation.h"
#include "platform/host/userfault.h"

namespace spillway::host {
namespace {

// Compacts the system's memory until it is destroyed, where this process may.
class Compacting {
 public:
  Compacting() : file_(::open("/proc/sys/vm/compact_memory", O_WRONLY | O_CLOEXEC)) {
    if (works()) {
      thread_ = std::thread([this] {
        while (!stop_) {
          (void)!::write(file_.get(), "1", 1);
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
  [[nodiscard]] bool works() const { return file_.get() >= 0; }

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
  static std::size_t missing(char* start) {
    std::array<unsigned char, kPages> resident{};
    EXPECT_EQ(::mincore(start, kBlockBytes, resident.data()), 0);
    std::size_t count = 0;
    for (const unsigned char one : resident) {
      count += (one & 1U) == 0 ? 1 : 0;
    }
    return count;
  }
  static std::size_t wrong(const char* start, std::size_t number) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < kPages; ++i) {
      std::uint32_t first = 0;
      std::uint32_t last = 0;
      std::memcpy(&first, start + i * kPageBytes, sizeof first);
      std::memcpy(&last, start + (i + 1) * kPageBytes - sizeof last, sizeof last);
      count += first == number * kPages + i && last == first ? 0 : 1;
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
      fill(i);
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
      fill(i);
      ASSERT_EQ(
          ::madvise(block(i) + (kPages - 1 - round % 9) * kPageBytes, kPageBytes, MADV_DONTNEED),
          0);
    }
    for (std::size_t i = 0; i < kBlocks; ++i) {
      ASSERT_EQ(userfault_->move(block(kBlocks + i), block(i), kBlockBytes), ENOENT);
      ASSERT_EQ(missing(block(i)), 1U);
      ASSERT_EQ(missing(block(kBlocks + i)), kPages);
    }
    ASSERT_EQ(::madvise(addresses_->start(), addresses_->bytes(), MADV_DONTNEED), 0);
  }
}

// Pages that are there twice are nobody's mistake but ours: none is taken for one that has moved.
TEST_F(UserfaultMove, NothingIsMovedWhereSomethingIsThere) {
  fill(0);
  fill(1);
  ASSERT_EQ(::madvise(block(1), kMiB, MADV_DONTNEED), 0);
  EXPECT_EQ(userfault_->move(block(1), block(0), kBlockBytes), EEXIST);
  EXPECT_EQ(missing(block(0)), 0U);
  EXPECT_EQ(wrong(block(0), 0), 0U);
  EXPECT_EQ(missing(block(1)), kPages / 2);
}

}  // namespace
}  // namespace spillway::host
