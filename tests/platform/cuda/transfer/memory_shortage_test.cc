// Commands that wait for memory.
#include "platform/cuda/transfer/memory_shortage.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway::cuda {
namespace {

DriverCommand back_of(BlockId block) {
  DriverCommand command;
  command.block = block;
  return command;
}

TEST(MemoryShortage, TheFirstInLineGoesFirst) {
  MemoryShortage shortage;
  for (const BlockId block : {1U, 2U, 3U}) {
    shortage.add(back_of(block));
  }
  std::vector<BlockId> asked;
  shortage.retry([&](const DriverCommand& command) {
    asked.push_back(command.block);
    return command.block == 1;
  });
  EXPECT_EQ(asked, (std::vector<BlockId>{1, 2}));
  EXPECT_FALSE(shortage.empty());
}

TEST(MemoryShortage, ABlockIsGivenUpBeforeItHasAny) {
  MemoryShortage shortage;
  shortage.add(back_of(1));
  EXPECT_FALSE(shortage.give_up(2));
  EXPECT_TRUE(shortage.give_up(1));
  EXPECT_TRUE(shortage.empty());
}

TEST(MemoryShortage, TellsAfterAWhileThenTakesHostMemoryThenGivesUp) {
  MemoryShortage shortage;
  shortage.add(back_of(1));
  constexpr TimeNs kBeginNs = kNsPerS;
  EXPECT_FALSE(shortage.look(kBeginNs).tell);
  EXPECT_TRUE(shortage.look(kBeginNs + 5 * kNsPerMs).tell);
  EXPECT_FALSE(shortage.look(kBeginNs + 6 * kNsPerMs).tell);
  EXPECT_FALSE(shortage.is_long(kBeginNs + 99 * kNsPerMs));
  EXPECT_TRUE(shortage.is_long(kBeginNs + 100 * kNsPerMs));
  EXPECT_FALSE(shortage.look(kBeginNs + 9 * kNsPerS).give_up);
  EXPECT_TRUE(shortage.look(kBeginNs + 10 * kNsPerS).give_up);
  // Once nothing waits, the next shortage is a new one.
  shortage.retry([](const DriverCommand&) { return true; });
  EXPECT_FALSE(shortage.is_long(kBeginNs + 11 * kNsPerS));
}

}  // namespace
}  // namespace spillway::cuda
