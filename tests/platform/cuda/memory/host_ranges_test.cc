// Room below the device, in runs.
#include "platform/cuda/memory/host_ranges.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/rng.h"

namespace spillway::cuda {
namespace {

TEST(HostRanges, ABlockLiesInOneRunWhereThereIsOne) {
  HostRanges ranges;
  ranges.add(0, 32 * kMiB);
  ASSERT_TRUE(ranges.take(3, 20 * kMiB));
  ASSERT_EQ(ranges.of(3).size(), 1U);
  EXPECT_EQ(ranges.of(3)[0].bytes, 20 * kMiB);
  EXPECT_EQ(ranges.free_bytes(), 12 * kMiB);
  EXPECT_TRUE(ranges.of(2).empty());
  EXPECT_TRUE(ranges.of(1000).empty());
}

TEST(HostRanges, AsMuchCanBePlacedAsIsFree) {
  HostRanges ranges;
  ranges.add(0, 16 * kMiB);
  for (BlockId block = 0; block < 8; ++block) {
    ASSERT_TRUE(ranges.take(block, kBlockBytes));
  }
  EXPECT_FALSE(ranges.take(8, kBlockBytes));
  for (const BlockId block : {0U, 2U, 4U, 6U}) {
    ranges.give_back(block);
  }
  ASSERT_TRUE(ranges.take(9, 4 * kBlockBytes));  // no two of them touch
  EXPECT_EQ(ranges.of(9).size(), 4U);
  EXPECT_EQ(ranges.free_bytes(), 0U);
  ranges.give_back(9);
  ranges.give_back(9);
  EXPECT_EQ(ranges.free_bytes(), 4 * kBlockBytes);
}

TEST(HostRanges, ARandomProgramFindsAllRoomAndNoneTwice) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Rng rng(seed);
    HostRanges ranges;
    ranges.add(0, 64 * kMiB);
    ranges.add(1 * kGiB, 64 * kMiB);
    std::map<BlockId, Bytes> taken;
    Bytes free_bytes = 128 * kMiB;
    for (int i = 0; i < 1000; ++i) {
      const auto block = static_cast<BlockId>(rng.below(40));
      if (taken.contains(block)) {
        ranges.give_back(block);
        free_bytes += taken[block];
        taken.erase(block);
      } else {
        const Bytes bytes = kBlockBytes * (1 + rng.below(16));
        ASSERT_EQ(ranges.take(block, bytes), bytes <= free_bytes) << "seed " << seed;
        if (bytes <= free_bytes) {
          taken[block] = bytes;
          free_bytes -= bytes;
        }
      }
      std::map<std::uint64_t, Bytes> runs;
      for (const auto& [one, bytes] : taken) {
        Bytes sum = 0;
        for (const auto& run : ranges.of(one)) {
          ASSERT_TRUE(runs.emplace(run.at, run.bytes).second);
          sum += run.bytes;
        }
        ASSERT_EQ(sum, bytes);
      }
      std::uint64_t end = 0;
      for (const auto& [at, bytes] : runs) {
        ASSERT_GE(at, end) << "seed " << seed;
        end = at + bytes;
      }
    }
  }
}

}  // namespace
}  // namespace spillway::cuda
