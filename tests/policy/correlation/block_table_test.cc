// The UM block correlation table: order, replacement, start and end, memory.
#include "policy/correlation/block_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/rng.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr BlockId kFirstBlock = 0, kSecondBlock = 1, kThirdBlock = 2;

std::vector<BlockId> present(const BlockTable& table) {
  std::vector<BlockId> blocks;
  table.for_each_block([&](BlockId block) { blocks.push_back(block); });
  return blocks;
}

// Figure 5 of the paper with a single level, as section 4.2 has it: misses a b c, then a again.
TEST(BlockTable, Figure5) {
  BlockTable table({.num_rows = 4, .assoc = 1, .num_succs = 2});
  table.fault(kNoBlock, kFirstBlock);
  table.fault(kFirstBlock, kSecondBlock);
  table.fault(kSecondBlock, kThirdBlock);
  EXPECT_THAT(table.successors(kFirstBlock), ElementsAre(kSecondBlock));
  EXPECT_THAT(table.successors(kSecondBlock), ElementsAre(kThirdBlock));
  EXPECT_THAT(table.successors(kThirdBlock), IsEmpty());
  table.fault(kThirdBlock, kFirstBlock);
  EXPECT_THAT(table.successors(kThirdBlock), ElementsAre(kFirstBlock));
  EXPECT_THAT(table.successors(kFirstBlock),
              ElementsAre(kSecondBlock));  // what is prefetched for the miss of a
}

TEST(BlockTable, SuccessorsAreMostRecentFirstAndTheOldestIsDropped) {
  BlockTable table({.num_rows = 16, .assoc = 2, .num_succs = 3});
  for (const BlockId next : {1U, 2U, 3U}) table.record(0, next);
  EXPECT_THAT(table.successors(0), ElementsAre(3, 2, 1));
  table.record(0, 1);
  EXPECT_THAT(table.successors(0), ElementsAre(1, 3, 2));
  table.record(0, 1);
  EXPECT_THAT(table.successors(0), ElementsAre(1, 3, 2));
  table.record(0, 3);
  EXPECT_THAT(table.successors(0), ElementsAre(3, 1, 2));
  table.record(0, 4);
  EXPECT_THAT(table.successors(0), ElementsAre(4, 3, 1));
}

TEST(BlockTable, ABlockIsNotItsOwnSuccessor) {
  BlockTable table;
  table.fault(kNoBlock, 5);
  table.fault(5, 5);
  EXPECT_THAT(table.successors(5), IsEmpty());
}

// Blocks 0, 8 and 16 share row 0 of 8.
TEST(BlockTable, FullRowReplacesTheLeastRecentlyRecordedEntry) {
  BlockTable table({.num_rows = 8, .assoc = 2, .num_succs = 2});
  table.record(0, 1);
  table.record(8, 2);
  table.record(0, 3);  // now 8 is the least recent
  table.record(16, 4);
  EXPECT_THAT(table.successors(0), ElementsAre(3, 1));
  EXPECT_FALSE(table.contains(8));
  EXPECT_THAT(table.successors(8), IsEmpty());
  EXPECT_THAT(table.successors(16), ElementsAre(4));
  table.record(8, 5);
  EXPECT_FALSE(table.contains(0));
  EXPECT_THAT(table.successors(8), ElementsAre(5));  // nothing is left of its old successors
  EXPECT_THAT(present(table), UnorderedElementsAre(1, 2, 3, 4, 5, 8, 16));
}

TEST(BlockTable, LookingUpDoesNotProtectFromReplacement) {
  BlockTable table({.num_rows = 8, .assoc = 2, .num_succs = 2});
  table.record(0, 1);
  table.record(8, 2);
  (void)table.successors(0);
  table.record(16, 3);
  EXPECT_FALSE(table.contains(0));
}

TEST(BlockTable, SharedRowOfAssocOneLosesThePredecessor) {
  BlockTable table({.num_rows = 8, .assoc = 1, .num_succs = 2});
  table.record(0, 8);
  EXPECT_FALSE(table.contains(0));
  EXPECT_TRUE(table.contains(8));
}

TEST(BlockTable, FirstExecutionIsOneChainFromStartToEnd) {
  BlockTable table;
  table.fault(kNoBlock, 10);
  EXPECT_EQ(table.start(), 10U);
  EXPECT_EQ(table.end(), 10U);
  table.fault(10, 30);
  table.fault(30, 20);
  EXPECT_EQ(table.start(), 10U);
  EXPECT_EQ(table.end(), 20U);
  EXPECT_THAT(table.successors(10), ElementsAre(30));
  EXPECT_THAT(table.successors(30), ElementsAre(20));
}

// Good prefetching leaves one fault, on a block that the first execution found resident.
TEST(BlockTable, LateNewBlockIsLinkedBehindTheEnd) {
  BlockTable table;
  table.fault(kNoBlock, 10);
  table.fault(10, 11);
  table.fault(kNoBlock, 9);
  EXPECT_EQ(table.start(), 10U);
  EXPECT_EQ(table.end(), 9U);
  EXPECT_THAT(table.successors(11), ElementsAre(9));
}

// A prefetched block that was evicted before its use faults again: that must not cut the chain.
TEST(BlockTable, KnownBlockMovesNeitherStartNorEnd) {
  BlockTable table;
  table.fault(kNoBlock, 10);
  table.fault(10, 11);
  table.fault(11, 12);
  table.fault(kNoBlock, 11);
  EXPECT_EQ(table.start(), 10U);
  EXPECT_EQ(table.end(), 12U);
  EXPECT_THAT(table.successors(11), ElementsAre(12));
  EXPECT_THAT(table.successors(12), IsEmpty());
}

TEST(BlockTable, ReplacedStartIsFoundAgainByTheNextExecution) {
  BlockTable table({.num_rows = 8, .assoc = 2, .num_succs = 4});
  table.fault(kNoBlock, 0);
  table.fault(0, 8);
  table.fault(8, 16);  // replaces 0
  EXPECT_EQ(table.start(), kNoBlock);
  table.fault(16, 17);  // in the middle of an execution: not a start
  EXPECT_EQ(table.start(), kNoBlock);
  table.fault(kNoBlock, 0);
  EXPECT_EQ(table.start(), 0U);
}

TEST(BlockTable, TakesMemoryForWhatIsUsed) {
  BlockTable table;
  EXPECT_EQ(table.memory_bytes(), 0U);
  BlockId previous = kNoBlock;
  for (BlockId block = 5000; block < 5100; ++block) {
    table.fault(previous, block);
    previous = block;
  }
  // 4096 entries of 20 bytes would be 80 KiB.
  EXPECT_LT(table.memory_bytes(), 8 * 1024U);
}

TEST(BlockTables, AreMadeOnFirstUse) {
  BlockTables tables({.num_rows = 8, .assoc = 1, .num_succs = 1});
  EXPECT_EQ(tables.find(3), nullptr);
  BlockTable& three = tables.of(3);
  three.fault(kNoBlock, 1);
  EXPECT_EQ(tables.find(3), &three);
  EXPECT_EQ(tables.find(2), nullptr);
  tables.of(1000).fault(kNoBlock, 2);
  EXPECT_EQ(&tables.of(3), &three);
  EXPECT_EQ(tables.find(1000)->start(), 2U);
}

// Against a model that keeps each row as a plain list.
TEST(BlockTable, AgreesWithAModelOnRandomRecords) {
  struct Entry {
    BlockId block;
    std::vector<BlockId> successors;
  };
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const BlockTableShape shape{.num_rows = 1 + static_cast<std::uint32_t>(rng.below(40)),
                                .assoc = 1 + static_cast<std::uint32_t>(rng.below(4)),
                                .num_succs = 1 + static_cast<std::uint32_t>(rng.below(5))};
    BlockTable table(shape);
    std::map<std::uint32_t, std::vector<Entry>> rows;
    const auto touch = [&](BlockId block) {
      std::vector<Entry>& row = rows[block % shape.num_rows];
      const auto at = std::find_if(row.begin(), row.end(),
                                   [&](const Entry& entry) { return entry.block == block; });
      Entry entry{.block = block, .successors = {}};
      if (at != row.end()) {
        entry = *at;
        row.erase(at);
      } else if (row.size() == shape.assoc) {
        row.pop_back();
      }
      row.insert(row.begin(), entry);
    };
    for (int i = 0; i < 2000; ++i) {
      const auto previous = static_cast<BlockId>(rng.below(120));
      const auto block = static_cast<BlockId>(rng.below(120));
      table.record(previous, block);
      if (previous == block) continue;
      touch(previous);
      std::vector<BlockId>& successors = rows[previous % shape.num_rows].front().successors;
      std::erase(successors, block);
      successors.insert(successors.begin(), block);
      if (successors.size() > shape.num_succs) successors.pop_back();
      touch(block);
    }
    std::set<BlockId> expected;
    for (const auto& [index, row] : rows) {
      for (const Entry& entry : row) {
        expected.insert(entry.block);
        EXPECT_THAT(table.successors(entry.block), testing::ElementsAreArray(entry.successors));
      }
    }
    const std::vector<BlockId> blocks = present(table);
    EXPECT_EQ(std::set<BlockId>(blocks.begin(), blocks.end()), expected);
    EXPECT_EQ(blocks.size(), expected.size());
  }
}

}  // namespace
}  // namespace spillway
