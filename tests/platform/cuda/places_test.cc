// Room below the device, in runs.
#include "platform/cuda/places.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/rng.h"

namespace spillway::cuda {
namespace {

TEST(Places, ABlockLiesInOneRunWhereThereIsOne) {
  Places places;
  places.add(0, 32 * kMiB);
  ASSERT_TRUE(places.take(3, 20 * kMiB));
  ASSERT_EQ(places.of(3).size(), 1U);
  EXPECT_EQ(places.of(3)[0].bytes, 20 * kMiB);
  EXPECT_EQ(places.free_bytes(), 12 * kMiB);
  EXPECT_TRUE(places.of(2).empty());
  EXPECT_TRUE(places.of(1000).empty());
}

TEST(Places, AsMuchCanBePlacedAsIsFree) {
  Places places;
  places.add(0, 16 * kMiB);
  for (BlockId block = 0; block < 8; ++block) {
    ASSERT_TRUE(places.take(block, kBlockBytes));
  }
  EXPECT_FALSE(places.take(8, kBlockBytes));
  for (const BlockId block : {0U, 2U, 4U, 6U}) {
    places.give_back(block);
  }
  ASSERT_TRUE(places.take(9, 4 * kBlockBytes));  // no two of them touch
  EXPECT_EQ(places.of(9).size(), 4U);
  EXPECT_EQ(places.free_bytes(), 0U);
  places.give_back(9);
  places.give_back(9);
  EXPECT_EQ(places.free_bytes(), 4 * kBlockBytes);
}

TEST(Places, ARandomProgramFindsAllRoomAndNoneTwice) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Rng rng(seed);
    Places places;
    places.add(0, 64 * kMiB);
    places.add(1 * kGiB, 64 * kMiB);
    std::map<BlockId, Bytes> taken;
    Bytes free_bytes = 128 * kMiB;
    for (int i = 0; i < 1000; ++i) {
      const auto block = static_cast<BlockId>(rng.below(40));
      if (taken.contains(block)) {
        places.give_back(block);
        free_bytes += taken[block];
        taken.erase(block);
      } else {
        const Bytes bytes = kBlockBytes * (1 + rng.below(16));
        ASSERT_EQ(places.take(block, bytes), bytes <= free_bytes) << "seed " << seed;
        if (bytes <= free_bytes) {
          taken[block] = bytes;
          free_bytes -= bytes;
        }
      }
      std::map<std::uint64_t, Bytes> runs;
      for (const auto& [one, bytes] : taken) {
        Bytes sum = 0;
        for (const auto& run : places.of(one)) {
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
