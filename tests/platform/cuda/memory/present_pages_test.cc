// Pages that are made present before they are registered.
#include "platform/cuda/memory/present_pages.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>

#include "platform/cuda/present_bytes.h"

namespace spillway::cuda {
namespace {

constexpr Bytes kPieceBytes = 18 * kMiB;
constexpr Bytes kBytes = 81 * kMiB;
constexpr std::size_t kPieces = 5;
constexpr Bytes kBehindBytes = 64 * kMiB;

class PresentPagesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!makes_present()) {
      GTEST_SKIP() << "this system cannot make pages present";
    }
    Result<Reservation> made = Reservation::make(kBytes + kBehindBytes);
    ASSERT_TRUE(made) << made.error().message;
    memory = std::make_unique<Reservation>(std::move(*made));
    ::madvise(memory->start(), memory->bytes(), MADV_NOHUGEPAGE);
  }
  [[nodiscard]] Bytes present(Bytes from, Bytes to) const {
    return present_bytes(memory->start() + from, to - from);
  }
  std::unique_ptr<Reservation> memory;
};

TEST_F(PresentPagesTest, WhatIsWantedIsPresentAndNothingElse) {
  PresentPages pages(memory->start(), kBytes, kPieceBytes);
  EXPECT_EQ(present(0, kBytes), 0U);
  pages.want(2 * kPieceBytes + 1);
  for (std::size_t piece = 0; piece < 3; ++piece) {
    pages.wait_for(piece);
  }
  EXPECT_EQ(present(0, 3 * kPieceBytes), 3 * kPieceBytes);
  pages.stop();
  EXPECT_EQ(present(3 * kPieceBytes, kBytes + kBehindBytes), 0U);
}

TEST_F(PresentPagesTest, TheLastPieceEndsWhereTheMemoryDoes) {
  PresentPages pages(memory->start(), kBytes, kPieceBytes);
  pages.want(kPieceBytes);
  pages.wait_for(0);
  pages.want(100 * kBytes);
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    pages.wait_for(piece);
  }
  EXPECT_EQ(present(0, kBytes), kBytes);
  EXPECT_EQ(present(kBytes, kBytes + kBehindBytes), 0U);
}

TEST_F(PresentPagesTest, OnceItIsStoppedNothingComes) {
  PresentPages pages(memory->start(), kBytes, kPieceBytes);
  pages.want(kBytes);
  pages.stop();
  const Bytes bytes = present(0, kBytes);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(present(0, kBytes), bytes);
}

TEST_F(PresentPagesTest, WhereNothingCanBePresentNobodyWaitsForEver) {
  ASSERT_EQ(::mprotect(memory->start(), kBytes, PROT_NONE), 0);
  PresentPages pages(memory->start(), kBytes, kPieceBytes);
  pages.want(kBytes);
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    pages.wait_for(piece);
  }
  ASSERT_EQ(::mprotect(memory->start(), kBytes, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(present(0, kBytes), 0U);
}

}  // namespace
}  // namespace spillway::cuda
