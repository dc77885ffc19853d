// Frames that move between a pool and the addresses of blocks, with their contents.
#include "platform/host/pages/frame_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "platform/common/process/reservation.h"

namespace spillway::host {
namespace {

class FramePoolTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kFrames = 4;

  void SetUp() override {
    const UserfaultSupport support = userfault_support();
    if (!support.write_protection || !support.moves) {
      GTEST_SKIP() << "pages cannot be moved; " << support.reason;
    }
    userfault_.emplace(std::move(Userfault::open().value()));
    addresses_.emplace(std::move(Reservation::make(32 * kMiB).value()));
    ::madvise(addresses_->start(), addresses_->bytes(), MADV_NOHUGEPAGE);
    ASSERT_TRUE(userfault_->watch(addresses_->start(), addresses_->bytes()));
    pool_ = FramePool::create(*userfault_, kFrames);
    ASSERT_NE(pool_, nullptr);
  }
  char* block(std::size_t number) { return addresses_->start() + number * kBlockBytes; }
  // A frame full of this value becomes the block's pages.
  bool place(char value, char* at) {
    void* const frame = pool_->take();
    if (frame == nullptr) return false;
    std::memset(frame, value, kBlockBytes);
    if (userfault_->move(at, frame, kBlockBytes) != 0) {
      pool_->give_back(frame);
      return false;
    }
    pool_->placed(frame);
    return true;
  }
  // A page that the system has in hand at this moment, because it compacts memory, does not move.
  Bytes place_parts(char* at, Bytes bytes, bool zeroed) {
    Bytes placed_bytes = 0;
    for (int tries = 0; placed_bytes == 0 && tries < 100; ++tries) {
      placed_bytes = pool_->place_parts(at, bytes, zeroed);
      std::this_thread::sleep_for(std::chrono::milliseconds(placed_bytes == 0 ? 1 : 0));
    }
    return placed_bytes;
  }
  static bool is_there(char* start) {
    unsigned char resident = 0;
    return ::mincore(start, kPageBytes, &resident) == 0 && (resident & 1U) != 0;
  }
  static bool holds(const char* start, char value) {
    return std::all_of(start, start + kBlockBytes, [&](char one) { return one == value; });
  }

  std::optional<Userfault> userfault_;
  std::optional<Reservation> addresses_;
  std::unique_ptr<FramePool> pool_;
};

TEST_F(FramePoolTest, AFrameBecomesABlocksPagesAndComesBackWithThem) {
  ASSERT_TRUE(place(1, block(0)));
  ASSERT_TRUE(place(2, block(1)));
  EXPECT_TRUE(holds(block(0), 1));
  EXPECT_TRUE(holds(block(1), 2));
  block(0)[7] = 9;  // writable from the start
  ASSERT_TRUE(pool_->recover(block(0)));
  EXPECT_FALSE(is_there(block(0)));
  const auto* const frame = static_cast<char*>(pool_->take());
  ASSERT_NE(frame, nullptr);
  EXPECT_EQ(frame[7], 9);
  EXPECT_EQ(frame[kBlockBytes - 1], 1);
  EXPECT_TRUE(holds(block(1), 2));
}

// Over and over, more often than the pool has places of any kind.
TEST_F(FramePoolTest, FramesGoRoundForEver) {
  for (std::size_t round = 0; round < 200; ++round) {
    const auto value = static_cast<char>(round % 100);
    ASSERT_TRUE(place(value, block(round % 8))) << round;
    ASSERT_TRUE(holds(block(round % 8), value));
    ASSERT_TRUE(pool_->recover(block(round % 8))) << round;
    if (round % 7 == 0) pool_->trim(0);
  }
}

// What cannot be moved stays where it was.
TEST_F(FramePoolTest, ARefusalChangesNothing) {
  EXPECT_FALSE(pool_->recover(block(3)));  // nothing is there
  ASSERT_TRUE(place(1, block(0)));
  EXPECT_FALSE(place(2, block(0)));  // somebody is there
  EXPECT_TRUE(holds(block(0), 1));
  EXPECT_TRUE(place(3, block(1)));  // the frame that was refused is as good as before
  EXPECT_TRUE(holds(block(1), 3));
  // A page in the middle is missing: half of the frame would be another's. Nobody wants the rest.
  ASSERT_EQ(::madvise(block(1) + kMiB, kPageBytes, MADV_DONTNEED), 0);
  EXPECT_FALSE(pool_->recover(block(1)));
  EXPECT_EQ(block(1)[kBlockBytes - 1], 3);
  ASSERT_EQ(::madvise(block(1), kBlockBytes, MADV_DONTNEED), 0);
  ASSERT_TRUE(place(4, block(1)));
  EXPECT_TRUE(pool_->recover(block(1)));  // the place that was tried is empty
}

// More blocks than frames: those for which there is no place stay with who has them.
TEST_F(FramePoolTest, TakesBackNoMoreThanItHasPlaces) {
  for (std::size_t i = 0; i < kFrames + 2; ++i) ASSERT_TRUE(place(static_cast<char>(i), block(i)));
  std::size_t recovered = 0;
  for (std::size_t i = 0; i < kFrames + 2; ++i) {
    if (pool_->recover(block(i))) {
      ++recovered;
    } else {
      EXPECT_TRUE(holds(block(i), static_cast<char>(i)));
    }
  }
  EXPECT_EQ(recovered, kFrames);
}

TEST_F(FramePoolTest, GivesFramesBackToTheSystem) {
  std::vector<char*> frames;
  for (std::size_t i = 0; i < 3; ++i) {
    frames.push_back(static_cast<char*>(pool_->take()));
    ASSERT_NE(frames.back(), nullptr);
    std::memset(frames.back(), 1, kBlockBytes);
  }
  for (char* const frame : frames) pool_->give_back(frame);
  const auto there = [&] { return std::ranges::count_if(frames, is_there); };
  EXPECT_EQ(there(), 3);
  pool_->trim(3 * kBlockBytes);
  EXPECT_EQ(there(), 3);
  pool_->trim(kBlockBytes);
  EXPECT_EQ(there(), 1);
  pool_->trim(0);
  EXPECT_EQ(there(), 0);
  EXPECT_NE(pool_->take(), nullptr);
}

// A block of less than a frame cuts one, and leaves a part; whole blocks are made of parts.
TEST_F(FramePoolTest, PartsBecomePagesOfSmallBlocksAndOfWholeOnes) {
  constexpr Bytes kSmall = 1500 * kKiB;
  ASSERT_TRUE(place(1, block(0)));
  ASSERT_TRUE(pool_->recover(block(0)));
  EXPECT_FALSE(pool_->parts_do());
  ASSERT_EQ(place_parts(block(1), kSmall, false), kSmall);
  EXPECT_EQ(block(1)[kSmall - 1], 1);
  EXPECT_FALSE(is_there(block(1) + kSmall));
  std::memset(block(1), 2, kSmall);
  ASSERT_TRUE(pool_->recover(block(1), kSmall));
  EXPECT_FALSE(is_there(block(1)));
  ASSERT_TRUE(pool_->parts_do());
  ASSERT_EQ(place_parts(block(2), kBlockBytes, false), kBlockBytes);
  EXPECT_EQ(std::count(block(2), block(2) + kBlockBytes, 2), static_cast<long>(kSmall));
  // No more than there is.
  EXPECT_EQ(pool_->place_parts(block(3), kBlockBytes, false), 0U);
}

TEST_F(FramePoolTest, PartsHoldZerosWhereThatIsAsked) {
  ASSERT_TRUE(place(1, block(0)));
  ASSERT_TRUE(pool_->recover(block(0)));
  ASSERT_EQ(place_parts(block(1), kMiB, true), kMiB);
  EXPECT_EQ(std::count(block(1), block(1) + kMiB, 0), static_cast<long>(kMiB));
}

// What is too much of the last frame, and parts before frames.
TEST_F(FramePoolTest, GivesBackNoMoreThanIsTooMuch) {
  ASSERT_TRUE(place(1, block(0)));
  ASSERT_TRUE(pool_->recover(block(0)));
  pool_->trim(kMiB);
  EXPECT_EQ(place_parts(block(1), kBlockBytes, false), kMiB);
  ASSERT_TRUE(pool_->recover(block(1), kMiB));
  ASSERT_TRUE(place(2, block(0)));
  ASSERT_TRUE(pool_->recover(block(0)));
  pool_->trim(kBlockBytes);
  EXPECT_FALSE(pool_->parts_do());
  EXPECT_EQ(place_parts(block(1), 2 * kBlockBytes, false), kBlockBytes);
}

// A budget need not be whole pages; what waits is.
TEST_F(FramePoolTest, GivesBackWholePages) {
  ASSERT_TRUE(place(1, block(0)));
  ASSERT_TRUE(pool_->recover(block(0)));
  pool_->trim(kMiB + 100);
  EXPECT_EQ(place_parts(block(1), kBlockBytes, false), kMiB);
  EXPECT_TRUE(pool_->recover(block(1), kMiB));
  pool_->trim(100);
  for (std::size_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(place(2, block(i)));
    ASSERT_TRUE(pool_->recover(block(i))) << "a place that is said to be empty is not";
  }
}

// More parts than there may be: the oldest go back to the system.
TEST_F(FramePoolTest, KeepsABoundedNumberOfParts) {
  constexpr Bytes kTiny = 64 * kKiB;
  const std::vector<char> ones(kTiny, 1);
  pool_ = FramePool::create(*userfault_, FramePool::kMostParts + 1);
  ASSERT_NE(pool_, nullptr);
  for (std::size_t i = 0; i < 3 * FramePool::kMostParts; ++i) {
    ASSERT_EQ(userfault_->copy(block(0), ones.data(), kTiny, true), 0);
    ASSERT_TRUE(pool_->recover(block(0), kTiny)) << i;
  }
  EXPECT_EQ(place_parts(block(1), kBlockBytes, false), FramePool::kMostParts * kTiny);
}

}  // namespace
}  // namespace spillway::host
