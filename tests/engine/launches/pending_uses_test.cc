// What launches that wait will use: the next use of a block, and the block that is needed last.
#include "engine/launches/pending_uses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "engine/memory/for_each_block.h"
#include "engine/memory/page_queues.h"

namespace spillway {
namespace {

class PendingUsesTest : public testing::Test {
 protected:
  PendingUsesTest() {
    const AllocationId id = *space.allocate(12 * kBlockBytes, 0);
    for (BlockId block = 0; block < space.allocation(id).block_count; ++block) {
      queues.push(PageQueue::kUsed, block);
    }
  }
  std::uint32_t issue(const std::vector<BlockId>& blocks) {
    Launch launch;
    for (const BlockId block : blocks) {
      launch.accesses.push_back({0, block, 1, AccessMode::kRead});
    }
    const std::uint32_t slot = launches.take(launch, 0);
    claims.issued(slot);
    for (const BlockId block : blocks) {
      if (claims.add(block, slot)) {
        queues.update(block);
      }
    }
    return slot;
  }
  // As the engine does it.
  void admit(std::uint32_t slot) {
    launches.at(slot).stage = LaunchStage::kAdmitted;
    for_each_block(launches.at(slot).launch, [&](BlockId block, const Access&) {
      ++space.block(block).pins;
      queues.update(block);
      claims.settle(block);
    });
    claims.admitted(slot);
  }
  void end(std::uint32_t slot) {
    for_each_block(launches.at(slot).launch, [&](BlockId block, const Access&) {
      --space.block(block).pins;
      queues.update(block);
    });
    launches.at(slot).stage = LaunchStage::kReleased;
    launches.give_back(slot);
  }
  [[nodiscard]] LaunchSeq seq(std::uint32_t slot) const { return launches.at(slot).launch.seq; }
  void check() const {
    const Status claimed = claims.check();
    ASSERT_TRUE(claimed.has_value()) << claimed.error().message;
    const Status queued = queues.check();
    ASSERT_TRUE(queued.has_value()) << queued.error().message;
  }

  Space space;
  LaunchTable launches;
  PendingUses claims{space, launches};
  PageQueues queues{space, claims};
};

TEST_F(PendingUsesTest, TheNextUseIsByTheFirstThatWaits) {
  EXPECT_EQ(claims.next_use(0), kNever);
  EXPECT_EQ(claims.needed_last(), kNoBlock);
  EXPECT_EQ(claims.next_issued(kNoLaunch), nullptr);
  const std::uint32_t first = issue({0, 1});
  const std::uint32_t second = issue({1, 2, 1});
  EXPECT_EQ(claims.waiting(), 2U);
  EXPECT_EQ(claims.next_use(0), seq(first));
  EXPECT_EQ(claims.next_use(1), seq(first));
  EXPECT_EQ(claims.next_use(2), seq(second));
  EXPECT_EQ(claims.needed_last(), 2U);
  EXPECT_EQ(queues.oldest_unclaimed(), 3U);
  EXPECT_EQ(claims.next_issued(kNoLaunch)->id, launches.at(first).launch.id);
  EXPECT_EQ(claims.next_issued(launches.at(first).launch.id)->seq, seq(second));
  EXPECT_EQ(claims.next_issued(launches.at(second).launch.id), nullptr);
  check();
  admit(first);
  EXPECT_EQ(claims.next_use(0), kNever);
  EXPECT_EQ(claims.next_use(1), seq(second));
  // One that waits no more stands before all others.
  EXPECT_EQ(claims.next_issued(launches.at(first).launch.id)->seq, seq(second));
  check();
  end(first);
  EXPECT_EQ(queues.oldest_unclaimed(), 0U);
  admit(second);
  end(second);
  EXPECT_EQ(claims.waiting(), 0U);
  EXPECT_EQ(claims.needed_last(), kNoBlock);
  check();
}

// Of another stream: its claims stand behind those of launches that wait longer, also when it has
// ended and its slot belongs to somebody else.
TEST_F(PendingUsesTest, OneThatIsAdmittedOutOfOrderIsPassedOver) {
  const std::uint32_t waits = issue({4});
  const std::uint32_t early = issue({4, 5});
  const std::uint32_t last = issue({4});
  admit(early);
  EXPECT_EQ(claims.next_use(4), seq(waits));
  EXPECT_EQ(claims.next_use(5), kNever);
  end(early);
  const std::uint32_t other = issue({6});
  EXPECT_EQ(other, early);  // the slot
  check();
  admit(waits);
  EXPECT_EQ(claims.next_use(4), seq(last));
  check();
}

TEST_F(PendingUsesTest, RandomLaunchesAgainstAModel) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    std::map<LaunchSeq, std::uint32_t> waiting;  // slots
    std::vector<std::uint32_t> running;
    for (int step = 0; step < 600; ++step) {
      if (rng.chance(waiting.size() < 30 ? 0.6 : 0.2)) {
        std::vector<BlockId> blocks(rng.below(5));
        std::generate(blocks.begin(), blocks.end(),
                      [&] { return static_cast<BlockId>(rng.below(12)); });
        const std::uint32_t slot = issue(blocks);
        waiting[seq(slot)] = slot;
      } else if (!waiting.empty() && rng.chance(0.6)) {
        const auto at =
            std::next(waiting.begin(), static_cast<std::ptrdiff_t>(rng.below(waiting.size())));
        running.push_back(at->second);
        waiting.erase(at);
        admit(running.back());
      } else if (!running.empty()) {
        std::swap(running[rng.below(running.size())], running.back());
        end(running.back());
        running.pop_back();
      }
      check();
      LaunchSeq furthest = 0;
      for (BlockId block = 0; block < 12; ++block) {
        LaunchSeq next = kNever;
        for (const auto& [number, slot] : waiting) {
          for_each_block(launches.at(slot).launch,
                         [&, seen = number](BlockId named, const Access&) {
                           next = named == block ? std::min(next, seen) : next;
                         });
        }
        ASSERT_EQ(claims.next_use(block), next) << "seed " << seed << ", step " << step;
        if (next != kNever && space.block(block).pins == 0) {
          furthest = std::max(furthest, next);
        }
      }
      const BlockId needed_last = claims.needed_last();
      ASSERT_EQ(needed_last == kNoBlock ? 0 : claims.next_use(needed_last), furthest);
      LaunchId after = kNoLaunch;
      for (const auto& [number, slot] : waiting) {
        const Launch* next = claims.next_issued(after);
        ASSERT_NE(next, nullptr);
        ASSERT_EQ(next->seq, number);
        after = next->id;
      }
      if (!waiting.empty()) {
        ASSERT_EQ(claims.next_issued(after), nullptr);
      }
    }
    while (!waiting.empty()) {
      running.push_back(waiting.begin()->second);
      waiting.erase(waiting.begin());
      admit(running.back());
    }
    for (const std::uint32_t slot : running) {
      end(slot);
    }
    check();
  }
}

}  // namespace
}  // namespace spillway
