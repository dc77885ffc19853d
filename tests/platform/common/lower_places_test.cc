// Places below the device: where a block's bytes lie, and what the children of a fork keep of them.
#include "platform/common/lower_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/rng.h"

namespace spillway {
namespace {

TEST(KeptPlaces, APlaceThatNobodyKeepsIsFreeAtOnce) {
  KeptPlaces kept;
  EXPECT_TRUE(kept.give_up(4096));
}

// Whoever comes last, the engine or a snapshot, is told that the place is free, and only that one.
TEST(KeptPlaces, TheLastOneToLeaveFreesThePlace) {
  KeptPlaces kept;
  kept.keep(4096);
  kept.keep(4096);
  EXPECT_FALSE(kept.give_up(4096));
  EXPECT_FALSE(kept.unkeep(4096));
  EXPECT_TRUE(kept.unkeep(4096));
  kept.keep(4096);
  EXPECT_FALSE(kept.unkeep(4096));  // it is the engine's as before
  EXPECT_TRUE(kept.give_up(4096));
}

TEST(LowerPlaces, ABlockHasAPlaceInEachTierFromTakingToGivingBack) {
  LowerPlaces places(4 * kMiB, 4 * kMiB);
  EXPECT_EQ(places.at(7, Tier::kHost), kNoPlace);
  ASSERT_TRUE(places.take(7, Tier::kHost, kBlockBytes));
  ASSERT_TRUE(places.take(7, Tier::kStorage, kBlockBytes));
  ASSERT_TRUE(places.take(3, Tier::kHost, kBlockBytes));
  EXPECT_NE(places.at(7, Tier::kHost), places.at(3, Tier::kHost));
  EXPECT_NE(places.at(7, Tier::kStorage), kNoPlace);
  EXPECT_EQ(places.at(3, Tier::kStorage), kNoPlace);
  EXPECT_FALSE(places.take(8, Tier::kHost, kPageBytes));
  EXPECT_EQ(places.at(8, Tier::kHost), kNoPlace);
  places.give_back(7, Tier::kHost, kBlockBytes);
  EXPECT_EQ(places.at(7, Tier::kHost), kNoPlace);
  EXPECT_NE(places.at(7, Tier::kStorage), kNoPlace);
  EXPECT_TRUE(places.take(8, Tier::kHost, kPageBytes));
}

TEST(LowerPlaces, WhatHasNoPlaceGivesNothingBack) {
  LowerPlaces places(4 * kMiB, 0);
  places.give_back(99, Tier::kHost, kBlockBytes);
  ASSERT_TRUE(places.take(1, Tier::kHost, kBlockBytes));
  places.give_back(1, Tier::kHost, kBlockBytes);
  places.give_back(1, Tier::kHost, kBlockBytes);
  ASSERT_TRUE(places.take(2, Tier::kHost, kBlockBytes));
  ASSERT_TRUE(places.take(3, Tier::kHost, kBlockBytes));
  EXPECT_NE(places.at(2, Tier::kHost), places.at(3, Tier::kHost));
  EXPECT_FALSE(places.take(4, Tier::kStorage, kPageBytes));
}

// A child's copy stays where it is while the parent's block moves on, and a grandchild's longer.
TEST(LowerPlaces, NobodyGetsAPlaceThatASnapshotNeeds) {
  for (const Tier tier : {Tier::kHost, Tier::kStorage}) {
    LowerPlaces places(2 * kMiB, 2 * kMiB);
    ASSERT_TRUE(places.take(5, tier, kBlockBytes));
    const std::uint64_t place = places.at(5, tier);
    const Snapshot child{{5, places.keep(5, tier, kBlockBytes)}};
    EXPECT_EQ(child.at(5).bytes, kBlockBytes);
    EXPECT_EQ(tier == Tier::kHost ? child.at(5).host : child.at(5).storage, place);
    EXPECT_EQ(tier == Tier::kHost ? child.at(5).storage : child.at(5).host, kNoPlace);
    places.keep_again(child);
    places.give_back(5, tier, kBlockBytes);
    EXPECT_EQ(places.at(5, tier), kNoPlace);
    EXPECT_FALSE(places.take(6, tier, kPageBytes));
    places.release(child);
    EXPECT_FALSE(places.take(6, tier, kPageBytes));
    places.release(child);
    EXPECT_TRUE(places.take(6, tier, kPageBytes));
  }
}

// Against a table: no place is anybody else's while the engine or a snapshot has it, and in the end
// all of it is free again.
TEST(LowerPlaces, RandomSnapshotsLoseAndShareNothing) {
  constexpr Bytes kRoom = 32 * kMiB;
  constexpr BlockId kBlocks = 12;
  Rng rng(1);
  LowerPlaces places(kRoom, kRoom);
  std::map<BlockId, Bytes> taken;
  std::vector<Snapshot> snapshots;
  const auto bytes_of = [](BlockId block) { return kPageBytes << (block % 10); };
  for (int step = 0; step < 20'000; ++step) {
    const auto block = static_cast<BlockId>(rng.below(kBlocks));
    const std::uint64_t dice = rng.below(10);
    if (dice < 4 && !taken.contains(block) && places.take(block, Tier::kHost, bytes_of(block))) {
      taken[block] = bytes_of(block);
      const std::uint64_t begin = places.at(block, Tier::kHost);
      const std::uint64_t end = begin + taken[block];
      for (const auto& [other, bytes] : taken) {
        const std::uint64_t at = places.at(other, Tier::kHost);
        ASSERT_TRUE(other == block || end <= at || at + bytes <= begin);
      }
      for (const Snapshot& snapshot : snapshots) {
        for (const auto& [other, kept] : snapshot) {
          ASSERT_TRUE(end <= kept.host || kept.host + kept.bytes <= begin);
        }
      }
    } else if (dice < 7 && taken.erase(block) > 0) {
      places.give_back(block, Tier::kHost, bytes_of(block));
    } else if (dice == 7 && snapshots.size() < 4) {
      Snapshot& snapshot = snapshots.emplace_back();
      for (const auto& [id, bytes] : taken) {
        snapshot.emplace(id, places.keep(id, Tier::kHost, bytes));
      }
    } else if (dice == 8 && !snapshots.empty() && snapshots.size() < 4) {
      places.keep_again(snapshots.front());
      snapshots.push_back(snapshots.front());
    } else if (dice == 9 && !snapshots.empty()) {
      std::swap(snapshots[rng.below(snapshots.size())], snapshots.back());
      places.release(snapshots.back());
      snapshots.pop_back();
    }
  }
  for (const auto& [block, bytes] : taken) places.give_back(block, Tier::kHost, bytes);
  for (const Snapshot& snapshot : snapshots) places.release(snapshot);
  for (BlockId block = 0; block < kRoom / kBlockBytes; ++block) {
    EXPECT_TRUE(places.take(block, Tier::kHost, kBlockBytes)) << block;
  }
}

}  // namespace
}  // namespace spillway
