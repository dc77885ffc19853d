// Who may have stored addresses, and until when that is looked at.
#include "interpose/cuda/operands/unlooked_memory.h"

#include <gmock/gmock.h>

namespace spillway::cuda {
namespace {

const AddressWriter kMine = AddressWriter::kernel(17, false);
const AddressWriter kOther = AddressWriter::kernel(18, false);
CuStream const kStream = nullptr;

bool note_and_look(UnlookedMemory& memory, std::vector<AddressWriter> writers, bool found) {
  for (const AddressWriter writer : writers) {
    memory.note(writer, 512, {.start = 512, .bytes = 64}, kStream);
  }
  const Unlooked what = memory.at(512);
  if (what.writers.empty()) {
    return false;
  }
  memory.looked(what, kStream, found);
  return true;
}

int looks(UnlookedMemory& memory, const std::vector<AddressWriter>& writers) {
  int count = 0;
  while (count < 1000 && note_and_look(memory, writers, false)) {
    ++count;
  }
  return count;
}

TEST(UnlookedMemory, AfterThreeLooksThatFindNothingThereAreNone) {
  UnlookedMemory memory;
  EXPECT_EQ(looks(memory, {kMine}), 3);
  EXPECT_FALSE(memory.any());
  EXPECT_FALSE(memory.may_write(kMine));
  EXPECT_EQ(looks(memory, {AddressWriter::kernel(17, true)}), 3);  // with addresses at hand
  EXPECT_EQ(looks(memory, {AddressWriter::copies_to(17)}), 3);
}

TEST(UnlookedMemory, WhoHasStoredOneIsAlwaysLookedAt) {
  UnlookedMemory memory;
  EXPECT_TRUE(note_and_look(memory, {kMine}, true));
  EXPECT_EQ(looks(memory, {kMine}), 1000);
}

TEST(UnlookedMemory, WhoMayHaveStoredOneIsLookedAtForLonger) {
  UnlookedMemory memory;
  EXPECT_TRUE(note_and_look(memory, {kMine, kOther}, true));
  EXPECT_EQ(looks(memory, {kMine}), 16);
  EXPECT_TRUE(note_and_look(memory, {kOther}, true));
  EXPECT_EQ(looks(memory, {kOther}), 1000);
}

TEST(UnlookedMemory, WithWhoIsKnownToOthersAreNotSuspected) {
  UnlookedMemory memory;
  EXPECT_TRUE(note_and_look(memory, {kMine}, true));
  EXPECT_TRUE(note_and_look(memory, {kMine, kOther}, true));
  EXPECT_EQ(looks(memory, {kOther}), 3);
}

TEST(UnlookedMemory, WhatIsNotedDuringALookIsLookedAtAgain) {
  UnlookedMemory memory;
  memory.note(kMine, 512, {.start = 512, .bytes = 64}, kStream);
  const Unlooked what = memory.at(512);
  memory.note(kMine, 512, {.start = 1024, .bytes = 64}, kStream);
  memory.looked(what, kStream, false);
  EXPECT_EQ(memory.at(512).bytes.bytes, 576U);
}

// What was launched on another stream may run after the look.
TEST(UnlookedMemory, ALookOnAnotherStreamLeavesItNoted) {
  UnlookedMemory memory;
  int other = 0;
  CuStream const another = reinterpret_cast<CuStream>(&other);
  memory.note(kMine, 512, {.start = 512, .bytes = 64}, another);
  memory.looked(memory.at(512), kStream, false);
  EXPECT_TRUE(memory.has(512));
  memory.looked(memory.at(512), another, false);
  EXPECT_FALSE(memory.has(512));
  memory.note(kMine, 512, {.start = 512, .bytes = 64}, kStream);
  memory.note(kOther, 512, {.start = 512, .bytes = 64}, another);
  memory.looked(memory.at(512), another, false);
  EXPECT_TRUE(memory.has(512));
}

// Too far apart for one look: what was not read says nothing of who was there.
TEST(UnlookedMemory, ALookAtAPartCountsLess) {
  UnlookedMemory memory;
  int count = 0;
  for (; count < 1000 && memory.may_write(kMine); ++count) {
    memory.note(kMine, 512, {.start = 512, .bytes = 64}, kStream);
    memory.note(kMine, 512, {.start = 512 + UnlookedMemory::kMostBytes, .bytes = 64}, kStream);
    memory.looked(memory.at(512), kStream, false);
  }
  EXPECT_EQ(count, 24);
}

// Another allocation may come to lie there.
TEST(UnlookedMemory, WhatIsKnownOfCopiesGoesWithTheAllocation) {
  UnlookedMemory memory;
  const AddressWriter copies = AddressWriter::copies_to(512);
  EXPECT_EQ(looks(memory, {copies}), 3);
  memory.forget(512);
  EXPECT_EQ(looks(memory, {copies}), 3);
}

TEST(UnlookedMemory, WhatIsReplacedOrGoneNeedsNoLook) {
  UnlookedMemory memory;
  memory.note(kMine, 512, {.start = 512, .bytes = 64}, kStream);
  memory.replaced(512, {.start = 512, .bytes = 32});
  EXPECT_TRUE(memory.any());
  memory.replaced(512, {.start = 512, .bytes = 64});
  EXPECT_FALSE(memory.any());
  memory.note(kMine, 512, {.start = 512, .bytes = 64}, kStream);
  memory.forget(512);
  EXPECT_FALSE(memory.any());
}

TEST(UnlookedMemory, ACopyTakesItAlong) {
  UnlookedMemory memory;
  memory.note(kMine, 512, {.start = 512, .bytes = 64}, kStream);
  memory.note_copied(4096, {.start = 4096, .bytes = 8}, 512, {.start = 576, .bytes = 8});
  EXPECT_TRUE(memory.at(4096).writers.empty());
  memory.note_copied(4096, {.start = 4096, .bytes = 8}, 512, {.start = 568, .bytes = 8});
  EXPECT_EQ(memory.at(4096).bytes.start, 4096U);
}

}  // namespace
}  // namespace spillway::cuda
