// Pages that are made present before they are registered.
#include "platform/cuda/present_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "platform/common/reservation.h"

namespace spillway::cuda {
namespace {

constexpr Bytes kPieceBytes = 2 * kMiB;
constexpr Bytes kBytes = 21 * kMiB;
constexpr std::size_t kPieces = 11;

class PresentPagesTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<Reservation> made = Reservation::make(kBytes);
    ASSERT_TRUE(made) << made.error().message;
    memory = std::make_unique<Reservation>(std::move(*made));
    constexpr int kPopulateWrite = 23;
    Result<Reservation> trial = Reservation::make(kPieceBytes);
    ASSERT_TRUE(trial);
    if (::madvise(trial->start(), kPieceBytes, kPopulateWrite) != 0 && errno == EINVAL) {
      GTEST_SKIP() << "this system cannot make pages present";
    }
  }
  [[nodiscard]] Bytes present_bytes(Bytes from, Bytes to) const {
    std::vector<unsigned char> pages((to - from) / kPageBytes);
    EXPECT_EQ(::mincore(memory->start() + from, to - from, pages.data()), 0);
    Bytes bytes = 0;
    for (const unsigned char page : pages) {
      bytes += (page & 1U) != 0 ? kPageBytes : 0;
    }
    return bytes;
  }
  std::unique_ptr<Reservation> memory;
};

TEST_F(PresentPagesTest, WhatIsWantedIsPresentAndNothingElse) {
  PresentPages pages(memory->start(), kBytes, kPieceBytes);
  EXPECT_EQ(present_bytes(0, kBytes), 0U);
  pages.want(3 * kPieceBytes - 1);
  for (std::size_t piece = 0; piece < 3; ++piece) {
    pages.wait_for(piece);
  }
  EXPECT_EQ(present_bytes(0, 3 * kPieceBytes), 3 * kPieceBytes);
  pages.stop();
  EXPECT_EQ(present_bytes(3 * kPieceBytes, kBytes), 0U);
}

TEST_F(PresentPagesTest, TheLastPieceEndsWhereTheMemoryDoes) {
  PresentPages pages(memory->start(), kBytes, kPieceBytes);
  pages.want(kPieceBytes);
  pages.wait_for(0);
  pages.want(100 * kBytes);
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    pages.wait_for(piece);
  }
  EXPECT_EQ(present_bytes(0, kBytes), kBytes);
}

TEST_F(PresentPagesTest, MayBeStoppedWithMuchStillToDo) {
  PresentPages pages(memory->start(), kBytes, kPieceBytes);
  pages.want(kBytes);
  pages.stop();
  EXPECT_LE(present_bytes(0, kBytes), kBytes);
}

}  // namespace
}  // namespace spillway::cuda
