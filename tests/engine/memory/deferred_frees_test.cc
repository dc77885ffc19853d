// What was said of memory takes effect between the same launches: epochs, against a model that
// remembers which launches each remark has to wait for.
#include "engine/memory/deferred_frees.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "base/rng.h"

namespace spillway {
namespace {

Remark remark(AllocationId id, Remark::Kind kind, BlockId block = 0) {
  return {.kind = kind, .allocation = id, .first_block = block, .block_count = 1};
}

TEST(DeferredFrees, NothingWaitsWhereNothingIsUsed) {
  DeferredFrees deaths;
  EXPECT_FALSE(deaths.busy(3));
  EXPECT_FALSE(deaths.waits(3));
  EXPECT_EQ(deaths.epoch(3), 0U);
  EXPECT_FALSE(deaths.take(3).has_value());
  const DeferredFrees::Epoch epoch = deaths.begin_use(3);
  EXPECT_TRUE(deaths.busy(3));
  EXPECT_FALSE(deaths.waits(3));
  EXPECT_FALSE(deaths.end_use(3, epoch));
  EXPECT_FALSE(deaths.busy(3));
}

TEST(DeferredFrees, ARemarkWaitsForThoseBeforeItAndNotForThoseBehind) {
  DeferredFrees deaths;
  const DeferredFrees::Epoch before = deaths.begin_use(0);
  deaths.begin_use(0);
  deaths.add(remark(0, Remark::Kind::kDiscard));
  const DeferredFrees::Epoch behind = deaths.begin_use(0);
  EXPECT_GT(behind, before);
  EXPECT_FALSE(deaths.end_use(0, before));
  EXPECT_TRUE(deaths.end_use(0, before));
  const auto due = deaths.take(0);
  ASSERT_TRUE(due.has_value());
  EXPECT_EQ(due->epoch, before);
  EXPECT_FALSE(deaths.take(0).has_value());
  EXPECT_TRUE(deaths.busy(0));  // the launch behind it
  EXPECT_FALSE(deaths.waits(0));
  EXPECT_FALSE(deaths.end_use(0, behind));
}

TEST(DeferredFrees, OneThatEndsOutOfOrderReleasesNothing) {
  DeferredFrees deaths;
  const auto first = deaths.begin_use(0);
  deaths.add(remark(0, Remark::Kind::kDiscard, 1));
  const auto second = deaths.begin_use(0);
  deaths.add(remark(0, Remark::Kind::kFree));
  EXPECT_FALSE(deaths.end_use(0, second));
  EXPECT_FALSE(deaths.take(0).has_value());
  EXPECT_TRUE(deaths.end_use(0, first));
  EXPECT_EQ(deaths.take(0)->remark.kind, Remark::Kind::kDiscard);
  EXPECT_EQ(deaths.take(0)->remark.kind, Remark::Kind::kFree);
  deaths.forget(0);
  EXPECT_EQ(deaths.epoch(0), 0U);  // the number's next owner begins anew
  EXPECT_TRUE(deaths.check().has_value());
}

TEST(DeferredFrees, SayingTheSameTwiceInARowIsSayingItOnce) {
  DeferredFrees deaths;
  const auto epoch = deaths.begin_use(0);
  deaths.add(remark(0, Remark::Kind::kDiscard, 1));
  deaths.add(remark(0, Remark::Kind::kDiscard, 1));
  deaths.add(remark(0, Remark::Kind::kDiscard, 2));
  deaths.add(remark(0, Remark::Kind::kDiscard, 1));
  EXPECT_TRUE(deaths.end_use(0, epoch));
  for (const BlockId block : {1U, 2U, 1U}) {
    EXPECT_EQ(deaths.take(0)->remark.first_block, block);
  }
  EXPECT_FALSE(deaths.take(0).has_value());
}

TEST(DeferredFrees, DoesAsAModelDoes) {
  struct Said {
    Remark remark;
    std::vector<std::uint32_t> waits_for;  // launches
  };
  struct Use {
    std::uint32_t launch = 0;
    AllocationId id = 0;
    DeferredFrees::Epoch epoch = 0;
  };
  constexpr AllocationId kAllocations = 3;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    DeferredFrees deaths;
    std::vector<std::deque<Said>> model(kAllocations);
    std::vector<Use> uses;
    std::uint32_t launches = 0;
    BlockId number = 0;
    for (int step = 0; step < 2000; ++step) {
      const auto id = static_cast<AllocationId>(rng.below(kAllocations));
      if (rng.chance(0.4)) {
        uses.push_back({.launch = launches++, .id = id, .epoch = deaths.begin_use(id)});
      } else if (rng.chance(0.3)) {
        const Remark said = remark(id, Remark::Kind::kDiscard, ++number);
        std::vector<std::uint32_t> waits_for;
        for (const Use& use : uses) {
          if (use.id == id) {
            waits_for.push_back(use.launch);
          }
        }
        ASSERT_EQ(deaths.busy(id), !waits_for.empty() || !model[id].empty());
        if (deaths.busy(id)) {
          deaths.add(said);
          model[id].push_back({.remark = said, .waits_for = waits_for});
        }
      } else if (!uses.empty()) {
        const auto at = rng.below(uses.size());
        const Use use = uses[at];
        uses.erase(uses.begin() + static_cast<std::ptrdiff_t>(at));
        for (Said& said : model[use.id]) {
          std::erase(said.waits_for, use.launch);
        }
        const bool due = !model[use.id].empty() && model[use.id].front().waits_for.empty();
        ASSERT_EQ(deaths.end_use(use.id, use.epoch), due) << "seed " << seed;
        while (!model[use.id].empty() && model[use.id].front().waits_for.empty()) {
          const auto taken = deaths.take(use.id);
          ASSERT_TRUE(taken.has_value());
          ASSERT_EQ(taken->remark, model[use.id].front().remark);
          model[use.id].pop_front();
        }
        ASSERT_FALSE(deaths.take(use.id).has_value());
      }
      ASSERT_TRUE(deaths.check().has_value());
    }
  }
}

}  // namespace
}  // namespace spillway
