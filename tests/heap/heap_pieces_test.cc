// The addresses that a heap has.
#include "heap/heap_pieces.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(HeapPieces, WhatIsUsedIsFoundByItsAddress) {
  HeapPieces pieces;
  const HeapPieces::Slot slot = pieces.add(4096);
  pieces[slot].bytes = 100;
  EXPECT_EQ(pieces.used_at(4096), std::nullopt);  // it is only kept
  pieces[slot].used = true;
  EXPECT_EQ(pieces.used_at(4096), slot);
  EXPECT_EQ(pieces.used_bytes_at(4096), 100U);
  EXPECT_EQ(pieces.used_bytes_at(4097), std::nullopt);
}

TEST(HeapPieces, ASlotThatIsGoneIsGivenToTheNext) {
  HeapPieces pieces;
  const HeapPieces::Slot slot = pieces.add(4096);
  pieces[slot].used = true;
  EXPECT_EQ(pieces.used_at(4096), slot);  // from now on a hint leads there
  pieces.remove(slot);
  EXPECT_EQ(pieces.used_at(4096), std::nullopt);
  EXPECT_EQ(pieces.add(8192), slot);
  EXPECT_FALSE(pieces[slot].used);
  EXPECT_EQ(pieces.used_at(4096), std::nullopt);
}

}  // namespace
}  // namespace spillway
