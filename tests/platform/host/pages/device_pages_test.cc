// Pages that appear, are protected and vanish, with frames that are kept and without.
#include "platform/host/pages/device_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "platform/common/process/clock.h"
#include "platform/host/paged_world.h"

namespace spillway::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Of this process, as the system counts it.
Bytes resident_bytes() {
  std::ifstream file("/proc/self/statm");
  Bytes all = 0;
  Bytes resident = 0;
  file >> all >> resident;
  return resident * kPageBytes;
}

class DevicePagesTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const UserfaultSupport support = userfault_support();
    if (!support.write_protection) {
      GTEST_SKIP() << support.reason;
    }
    world_ = std::make_unique<PagedWorld>(16 * kMiB, GetParam());
  }
  void TearDown() override {
    if (world_) {
      EXPECT_THAT(world_->failures(), IsEmpty());
    }
  }
  [[nodiscard]] DevicePages& pages() { return world_->pages(); }
  [[nodiscard]] char* start(BlockId block) { return world_->start(block); }
  void make(BlockId block, Bytes bytes, bool writable) {
    const auto lock = world_->lock();
    pages().renew(block, bytes, true);
    pages().zero(block, bytes);
    pages().map(block, bytes, writable);
  }
  void drop(BlockId block, Bytes bytes) {
    const auto lock = world_->lock();
    pages().drop(block, bytes);
  }
  // What came from below becomes the block's pages, as a transfer does it.
  TransferJob::Part fill(BlockId block, char value, Bytes bytes, bool writable) {
    const std::vector<char> from(bytes, value);
    TransferJob::Part part{.bytes = bytes, .writable = writable};
    pages().fill(block, from.data(), part);
    const auto lock = world_->lock();
    pages().landed(block, part);
    return part;
  }
  bool holds(BlockId block, Bytes bytes, char value) {
    return std::all_of(start(block), start(block) + bytes, [&](char one) { return one == value; });
  }

  std::unique_ptr<PagedWorld> world_;
};

TEST_P(DevicePagesTest, WhatIsMappedToBeWrittenStopsNobody) {
  for (const Bytes bytes : {kBlockBytes, kPageBytes, 12 * kKiB}) {
    make(3, bytes, true);
    EXPECT_TRUE(pages().there(3));
    EXPECT_EQ(world_->resident_pages(3), bytes / kPageBytes);
    EXPECT_TRUE(holds(3, bytes, 0));
    std::memset(start(3), 5, bytes);
    EXPECT_THAT(world_->faults(), IsEmpty());
    drop(3, bytes);
    EXPECT_FALSE(pages().there(3));
    EXPECT_EQ(world_->resident_pages(3), 0U);
  }
}

TEST_P(DevicePagesTest, TheFirstWriteToWhatIsToBeReadIsSeen) {
  for (const Bytes bytes : {kBlockBytes, kPageBytes}) {
    make(3, bytes, false);
    EXPECT_TRUE(holds(3, bytes, 0));
    EXPECT_THAT(world_->faults(), IsEmpty());
    start(3)[bytes - 1] = 1;
    EXPECT_THAT(world_->faults(), ElementsAre("write 3"));
    start(3)[0] = 1;
    EXPECT_THAT(world_->faults(), IsEmpty());
    drop(3, bytes);
  }
}

// From then on its bytes can be copied.
TEST_P(DevicePagesTest, WritesToWhatIsUnmappedAreSeen) {
  make(3, kBlockBytes, true);
  start(3)[100] = 7;
  {
    const auto lock = world_->lock();
    pages().unmap(3, kBlockBytes);
    pages().unmap(4, kBlockBytes);  // is not there
  }
  EXPECT_EQ(start(3)[100], 7);
  EXPECT_THAT(world_->faults(), IsEmpty());
  start(3)[kMiB] = 8;
  EXPECT_THAT(world_->faults(), ElementsAre("write 3"));
  EXPECT_EQ(start(3)[100], 7);
}

// Frames that others have left hold anything: new memory must not show it.
TEST_P(DevicePagesTest, NewMemoryHoldsZerosWhateverItsFrameHeld) {
  for (BlockId block = 0; block < 4; ++block) {
    make(block, kBlockBytes, true);
    std::memset(start(block), 9, kBlockBytes);
    drop(block, kBlockBytes);
  }
  for (BlockId block = 4; block < 8; ++block) {
    make(block, kBlockBytes, block % 2 == 0);
    EXPECT_TRUE(holds(block, kBlockBytes, 0)) << block;
  }
  EXPECT_THAT(world_->faults(), IsEmpty());
}

// So that nothing need come from the system, and be zeroed, if nobody asks for zeros.
TEST_P(DevicePagesTest, SmallBlocksTakeWhatOthersHaveLeft) {
  make(0, 1500 * kKiB, true);
  std::memset(start(0), 9, 1500 * kKiB);
  drop(0, 1500 * kKiB);
  {
    const auto lock = world_->lock();
    pages().renew(1, kMiB, false);
    pages().zero(1, kMiB);
    pages().map(1, kMiB, true);
  }
  const bool moves = GetParam() && userfault_support().moves;
  EXPECT_TRUE(holds(1, kMiB, moves ? 9 : 0));
  std::memset(start(1), 9, kMiB);
  drop(1, kMiB);
  // New memory of which there is a part only.
  make(2, 1900 * kKiB, true);
  EXPECT_TRUE(holds(2, 1900 * kKiB, 0));
  drop(2, 1900 * kKiB);
  make(3, kBlockBytes, true);
  EXPECT_TRUE(holds(3, kBlockBytes, 0));
  EXPECT_THAT(world_->faults(), IsEmpty());
}

TEST_P(DevicePagesTest, WhatIsZeroedWhileItIsThereIsZeroAndAsWritableAsBefore) {
  for (const bool writable : {true, false}) {
    make(3, kBlockBytes, true);
    std::memset(start(3), 9, kBlockBytes);
    {
      const auto lock = world_->lock();
      pages().map(3, kBlockBytes, writable);
      pages().zero(3, kBlockBytes);
    }
    EXPECT_TRUE(holds(3, kBlockBytes, 0));
    start(3)[5] = 1;
    EXPECT_EQ(world_->faults().size(), writable ? 0U : 1U);
    drop(3, kBlockBytes);
  }
}

TEST_P(DevicePagesTest, WhatComesFromBelowIsThereAndProtectedUnlessItIsToBeWritten) {
  for (const Bytes bytes : {kBlockBytes, 8 * kKiB}) {
    for (const bool writable : {true, false}) {
      const TransferJob::Part part = fill(5, 3, bytes, writable);
      EXPECT_FALSE(part.touched);
      EXPECT_TRUE(pages().there(5));
      EXPECT_TRUE(holds(5, bytes, 3));
      EXPECT_THAT(world_->faults(), IsEmpty());
      start(5)[1] = 4;
      EXPECT_EQ(world_->faults().size(), writable ? 0U : 1U);
      EXPECT_EQ(start(5)[0], 3);
      drop(5, bytes);
    }
  }
}

// A frame is writable for a moment before it is protected. Who writes in that moment must not be
// missed: either there is a fault, or the filling says that somebody has written.
TEST_P(DevicePagesTest, NoWriteToAnArrivingBlockIsMissed) {
  const std::vector<char> from(kBlockBytes, 3);
  int touched = 0;
  for (int round = 0; round < 60; ++round) {
    std::atomic<bool> go{false};
    std::thread writer([&] {
      while (!go) {
      }
      std::atomic_ref(start(5)[kBlockBytes - 1]).store(4);
    });
    TransferJob::Part part{.bytes = kBlockBytes, .writable = false};
    {
      const auto lock = world_->lock();  // nobody is let go on
      go = true;
      for (const TimeNs until_ns = now_ns() + round * 5000; now_ns() < until_ns;) {
      }
      pages().fill(5, from.data(), part);
      const char seen = std::atomic_ref(start(5)[kBlockBytes - 1]).load();
      EXPECT_EQ(part.touched, seen == 4) << round;
      touched += part.touched ? 1 : 0;
      pages().landed(5, part);
    }
    writer.join();
    EXPECT_EQ(start(5)[kBlockBytes - 1], 4);
    EXPECT_EQ(start(5)[0], 3);
    drop(5, kBlockBytes);
  }
  RecordProperty("touched", touched);
}

// Holds the first page of a block for writing, as a device does, as soon as it is there.
class Pinner {
 public:
  explicit Pinner(char* page) : page_(page) {}
  [[nodiscard]] bool usable() { return ::io_uring_queue_init(1, &ring_, 0) == 0; }
  void start() {
    thread_ = std::thread([this] {
      unsigned char resident = 0;
      while ((resident & 1U) == 0) {
        ::mincore(page_, kPageBytes, &resident);
        looks_ = true;
      }
      const iovec buffer{.iov_base = page_, .iov_len = kPageBytes};
      EXPECT_EQ(::io_uring_register_buffers(&ring_, &buffer, 1), 0);
      pinned_ = true;
    });
    while (!looks_) {
    }
  }
  [[nodiscard]] bool pinned() const { return pinned_; }
  void end() {
    thread_.join();
    ::io_uring_queue_exit(&ring_);
  }

 private:
  char* page_;
  io_uring ring_{};
  std::atomic<bool> looks_{false};
  std::atomic<bool> pinned_{false};
  std::thread thread_;
};

// Frames of small pages, which are writable for longest.
class PinnedPagesTest : public DevicePagesTest {
 protected:
  static constexpr int kRounds = 200;  // a few in a hundred meet the moment
  void SetUp() override {
    ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    DevicePagesTest::SetUp();
  }
  void TearDown() override {
    ::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    DevicePagesTest::TearDown();
  }
  // Whether somebody has come to hold a page for writing, and it does not count as written.
  template <typename Appear>
  bool missed_while(Appear&& appear) {
    Pinner pinner(start(5));
    if (!pinner.usable()) {
      return false;
    }
    TransferJob::Part part{.bytes = kBlockBytes, .writable = false};
    bool missed = false;
    {
      const auto lock = world_->lock();  // nobody is let go on
      pinner.start();
      appear(part);
      for (const TimeNs until_ns = now_ns() + 200'000; now_ns() < until_ns;) {
      }
      missed = pinner.pinned() && !part.touched && !part.held;
    }
    if (part.aside == nullptr && pages().there(5)) {
      std::atomic_ref(start(5)[0]).store(4);  // is let go on
    }
    pinner.end();
    return missed;
  }
};

// What is written into a page that is held would never be seen.
TEST_P(PinnedPagesTest, WhoHoldsAPageOfAnArrivingBlockHasStoppedAtIt) {
  const std::vector<char> from(kBlockBytes, 3);
  pages().expect_pins();
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_FALSE(missed_while([&](TransferJob::Part& part) {
      pages().fill(5, from.data(), part);
      pages().landed(5, part);
    })) << round;
    EXPECT_EQ(start(5)[1], 3);
    drop(5, kBlockBytes);
  }
}

// A block that has been copied ahead of need goes back to where it was.
TEST_P(PinnedPagesTest, WhoHoldsAPageOfABlockThatGoesBackHasStoppedAtIt) {
  std::vector<char> copied(kBlockBytes, 3);
  pages().expect_pins();
  for (int round = 0; round < kRounds; ++round) {
    fill(5, 3, kBlockBytes, true);
    TransferJob::Part leaving{.bytes = kBlockBytes};
    {
      const auto lock = world_->lock();
      pages().unmap(5, kBlockBytes);
    }
    pages().take_aside(5, leaving);
    EXPECT_FALSE(leaving.held);
    const bool moves = leaving.aside != nullptr;
    ASSERT_FALSE(missed_while([&](TransferJob::Part& part) {
                   part.aside = leaving.aside;
                   pages().put_back(5, copied.data(), part);
                   pages().departed(5, part);
                 }) &&
                 moves)
        << round;
    EXPECT_EQ(start(5)[1], 3);
    drop(5, kBlockBytes);
  }
}

TEST_P(DevicePagesTest, KnowsWhereBytesCameFrom) {
  EXPECT_EQ(pages().source(70), Source::kZeros);
  pages().set_source(5, Source::kStorageCopy);
  fill(5, 1, kBlockBytes, true);
  EXPECT_EQ(pages().source(5), Source::kStorageCopy);
  drop(5, kBlockBytes);
  make(5, kBlockBytes, true);
  EXPECT_EQ(pages().source(5), Source::kZeros);
}

// A program that uses what it has freed must not stop for ever. What comes to lie there afterwards,
// smaller or larger, is new memory like any other.
TEST_P(DevicePagesTest, WhatWasTouchedWhileItWasNobodysBecomesNewMemory) {
  for (const Bytes first : {kBlockBytes, kPageBytes}) {
    {
      const auto lock = world_->lock();
      pages().fill_dead(3);
    }
    EXPECT_TRUE(holds(3, kBlockBytes, 0));
    start(3)[kMiB] = 1;
    EXPECT_THAT(world_->faults(), IsEmpty());
    make(3, first, true);
    EXPECT_TRUE(holds(3, first, 0));
    EXPECT_EQ(world_->resident_pages(3), first / kPageBytes);
    std::memset(start(3), 1, first);
    drop(3, first);
    make(3, kBlockBytes, true);
    EXPECT_TRUE(holds(3, kBlockBytes, 0));
    EXPECT_EQ(world_->resident_pages(3), kBlockBytes / kPageBytes);
    drop(3, kBlockBytes);
  }
}

// Twice, and where a part of it is there already.
TEST_P(DevicePagesTest, WhoTouchesNobodysMemoryGoesOnWhereverItIs) {
  make(3, kPageBytes, true);
  start(3)[0] = 1;
  {
    const auto lock = world_->lock();
    pages().fill_dead(3);
    pages().fill_dead(3);
  }
  EXPECT_EQ(world_->resident_pages(3), kBlockBytes / kPageBytes);
  EXPECT_EQ(start(3)[0], 1);
  EXPECT_EQ(start(3)[kBlockBytes - 1], 0);
}

// Frames that wait take what the blocks leave of the budget, and an eighth of it beyond.
TEST_P(DevicePagesTest, WhatHasLeftTakesNoMoreThanTheBudgetLeaves) {
  constexpr BlockId kBlocks = 16;  // twice the budget
  const Bytes before = resident_bytes();
  for (BlockId block = 0; block < kBlocks; ++block) {
    make(block, kBlockBytes, true);
    std::memset(start(block), 1, kBlockBytes);
  }
  EXPECT_GE(resident_bytes(), before + kBlocks * kBlockBytes);
  for (BlockId block = 0; block < kBlocks; ++block) drop(block, kBlockBytes);
  constexpr Bytes kNoise = kMiB;
  EXPECT_LE(resident_bytes(), before + 18 * kMiB + kNoise);
  {
    const auto lock = world_->lock();
    pages().set_capacity(0);
    pages().trim_frames();
  }
  EXPECT_LE(resident_bytes(), before + kNoise);
}

INSTANTIATE_TEST_SUITE_P(Frames, DevicePagesTest, ::testing::Bool(),
                         [](const auto& kept) { return kept.param ? "Kept" : "NotKept"; });
INSTANTIATE_TEST_SUITE_P(Frames, PinnedPagesTest, ::testing::Bool(),
                         [](const auto& kept) { return kept.param ? "Kept" : "NotKept"; });

}  // namespace
}  // namespace spillway::host
