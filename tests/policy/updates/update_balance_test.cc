// Where updates run: proportions worked out by hand for links and host memories, and against every
// other proportion.
#include "policy/updates/update_balance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr int kUpdates = 1000;
constexpr double kBlock = kBlockBytes;

// Adam on tensors of one block each: parameter, gradient and two states.
class Balance : public testing::Test {
 protected:
  // Its parameter has a copy in host memory that nobody has written since it went up; gradient on
  // the device, states in host memory.
  Launch adam() {
    Launch update{.runs_at = Tier::kHost, .accesses = {}};
    for (int i = 0; i < 4; ++i) {
      const AllocationId id = space_.allocate(kBlockBytes, 0).value();
      const BlockId first = space_.allocation(id).first_block;
      Block& block = space_.block(first);
      block.contents = Contents::kLive;
      if (i < 2) {
        block.copies.add(Tier::kDevice);
      }
      if (i != 1) {
        block.copies.add(Tier::kHost);
      }
      const AccessMode mode = i == 1 ? AccessMode::kRead : AccessMode::kReadWrite;
      update.accesses.push_back({id, first, 1, mode});
    }
    return update;
  }
  int placed_at_host(UpdateBalance& balance, int updates = kUpdates) {
    int count = 0;
    for (int i = 0; i < updates; ++i) {
      count += balance.place(adam(), space_, 0).runs_at == Tier::kHost ? 1 : 0;
    }
    return count;
  }
  // Seconds until both sides have ended `at_host` of them there: bytes a parameter are 8 up and 8
  // down on the device; 4 up, 4 down and 28 through host memory at the host.
  static double end_s(int at_host, double link, double host) {
    const double on_link = 8.0 * (kUpdates - at_host) + 4.0 * at_host;
    return kBlock / 4 * std::max(on_link / link, 28.0 * at_host / host);
  }
  static UpdateBalance with(double link, double host,
                            UpdateBalance::Device device = UpdateBalance::Device::kOwnMemory) {
    return UpdateBalance(device, {.up = link, .down = link, .host = host});
  }
  Transfer move(Tier from, Tier to, std::vector<BlockId> blocks) {
    return {
        .from = from, .to = to, .bytes = blocks.size() * kBlockBytes, .blocks = std::move(blocks)};
  }

  Space space_;
};

TEST_F(Balance, CountsWhatEachSideMoves) {
  const UpdateWorks works = works_of(adam(), space_);
  EXPECT_EQ(works.on_device.up_bytes, 2 * kBlockBytes);
  EXPECT_EQ(works.on_device.down_bytes, 2 * kBlockBytes);
  EXPECT_EQ(works.on_device.host_bytes, 0U);
  EXPECT_EQ(works.at_host.up_bytes, kBlockBytes);    // the parameter
  EXPECT_EQ(works.at_host.down_bytes, kBlockBytes);  // the gradient: the parameter has a copy
  EXPECT_EQ(works.at_host.host_bytes, 7 * kBlockBytes);
}

// Both sides end together at x of the updates at the host: (8 - 4x) / link = 28x / host, that is
// x = 2 host / (7 link + host), or all of them.
TEST_F(Balance, SharesSoThatBothSidesEndTogether) {
  struct Case {
    double link;
    double host;
    double share;
  };
  for (const Case& one :
       {Case{13e9, 20e9, 0.3604}, Case{26e9, 20e9, 0.1980}, Case{55e9, 20e9, 0.0988},
        Case{13e9, 300e9, 1}, Case{26e9, 300e9, 1}, Case{55e9, 300e9, 0.8759}}) {
    UpdateBalance balance = with(one.link, one.host);
    const int at_host = placed_at_host(balance);
    EXPECT_NEAR(at_host, one.share * kUpdates, 2) << one.link << ", " << one.host;
    double best_s = end_s(0, one.link, one.host);
    for (int other = 0; other <= kUpdates; ++other) {
      best_s = std::min(best_s, end_s(other, one.link, one.host));
    }
    EXPECT_LE(end_s(at_host, one.link, one.host), best_s * 1.005);
  }
}

TEST_F(Balance, UntilAllIsMeasuredBytesDecide) {
  for (UpdateBalance balance : {with(0, 20e9), with(55e9, 0), UpdateBalance()}) {
    const Launch update = adam();
    EXPECT_TRUE(moves_less_at_host(works_of(update, space_)));
    EXPECT_EQ(balance.place(update, space_, 0).runs_at, Tier::kHost);
    space_.block(update.accesses[2].first_block).copies.add(Tier::kDevice);
    // One state and the way back against gradient, parameter, and that state's way back: 2 to 3.
    EXPECT_FALSE(moves_less_at_host(works_of(update, space_)));
    EXPECT_EQ(balance.place(update, space_, 0).runs_at, Tier::kDevice);
  }
}

TEST_F(Balance, WhatIsThereStaysThere) {
  UpdateBalance balance = with(13e9, 20e9);
  Launch update = adam();
  placed_at_host(balance);  // much is queued on both sides
  for (const Access& access : update.accesses) {
    space_.block(access.first_block).copies.add(Tier::kDevice);
  }
  EXPECT_EQ(balance.place(update, space_, 0).runs_at, Tier::kDevice);
}

// After 256 MiB at 13, these and the start at 26 weigh the same: 2 / (1 / 26 + 1 / 13).
TEST_F(Balance, MeasuresTheLinkByWhatItMoves) {
  UpdateBalance balance = with(26e9, 20e9);
  const auto block_ns = static_cast<TimeNs>(kBlock / 13);  // 13 GB/s
  TimeNs now_ns = 1000;
  // Two are under way at a time: the second one's time begins when the first has ended.
  balance.transfer_began(move(Tier::kHost, Tier::kDevice, {0}), now_ns);
  for (BlockId id = 1; id <= 128; ++id) {
    balance.transfer_began(move(Tier::kHost, Tier::kDevice, {id}), now_ns);
    now_ns += block_ns;
    balance.transfer_ended(move(Tier::kHost, Tier::kDevice, {id - 1}), now_ns);
  }
  EXPECT_NEAR(balance.rates().up, 17.33e9, 0.01e9);
  EXPECT_EQ(balance.rates().down, 26e9);
}

TEST_F(Balance, StorageAndFailuresSayNothingOfTheLink) {
  UpdateBalance balance = with(26e9, 20e9);
  for (const Transfer& transfer : {move(Tier::kStorage, Tier::kDevice, {0, 1, 2}),
                                   move(Tier::kStorage, Tier::kHost, {0, 1, 2})}) {
    balance.transfer_began(transfer, 0);
    balance.transfer_ended(transfer, kNsPerS);
  }
  balance.transfer_began(move(Tier::kDevice, Tier::kHost, {0}), 0);
  balance.transfer_ended(move(Tier::kDevice, Tier::kHost, {0}), kNsPerS, false);
  EXPECT_EQ(balance.rates().up, 26e9);
  EXPECT_EQ(balance.rates().down, 26e9);
}

TEST_F(Balance, MeasuresTheHostByWhatUpdatesTook) {
  UpdateBalance balance = with(13e9, 0);
  const Bytes bytes = 7 * kBlockBytes;
  balance.update_ended(bytes, static_cast<TimeNs>(static_cast<double>(bytes) / 20));
  EXPECT_NEAR(balance.rates().host, 20e9, 1e7);
}

// The link is wanted for other things half of the time: as one of half the rate.
TEST_F(Balance, MindsWhatTheLinkDoesOtherwise) {
  UpdateBalance balance = with(26e9, 20e9);
  const auto block_ns = static_cast<TimeNs>(kBlock / 26);
  TimeNs now_ns = 0;
  for (int i = 0; i < 10'000; ++i) {
    for (const auto& [from, to] :
         {std::pair(Tier::kHost, Tier::kDevice), std::pair(Tier::kDevice, Tier::kHost)}) {
      balance.transfer_began(move(from, to, {0}), now_ns);
      balance.transfer_ended(move(from, to, {0}), now_ns + block_ns);
    }
    now_ns += 2 * block_ns;
  }
  int at_host = 0;
  for (int i = 0; i < kUpdates; ++i) {
    at_host += balance.place(adam(), space_, now_ns).runs_at == Tier::kHost ? 1 : 0;
  }
  EXPECT_NEAR(at_host, 0.3604 * kUpdates, 10);
}

TEST_F(Balance, WhatIsDoneIsQueuedNoMore) {
  UpdateBalance balance = with(55e9, 20e9);
  std::vector<Launch> updates;
  std::vector<UpdateBalance::Placement> placements;
  for (int i = 0; i < 50; ++i) {
    updates.push_back(adam());
    placements.push_back(balance.place(updates.back(), space_, 0));
  }
  // Alone, 8 bytes over the link take less than 28 through host memory.
  EXPECT_EQ(placements.front().runs_at, Tier::kDevice);
  EXPECT_GT(balance.queued().host_bytes, 0U);
  TimeNs now_ns = 0;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const bool at_host = placements[i].runs_at == Tier::kHost;
    std::vector<BlockId> up;
    std::vector<BlockId> down;
    for (std::size_t k = 0; k < 4; ++k) {
      const BlockId id = updates[i].accesses[k].first_block;
      if (at_host ? k == 0 : k >= 2) {
        up.push_back(id);
      }
      if (at_host ? k == 1 : k >= 2) {
        down.push_back(id);
      }
    }
    if (at_host) {
      balance.update_ended(placements[i].host_bytes, static_cast<TimeNs>(7 * kBlock / 20));
    }
    for (const Transfer& transfer :
         {move(Tier::kHost, Tier::kDevice, up), move(Tier::kDevice, Tier::kHost, down)}) {
      balance.transfer_began(transfer, now_ns);
      now_ns += static_cast<TimeNs>(static_cast<double>(transfer.bytes) / 55);
      balance.transfer_ended(transfer, now_ns);
    }
  }
  EXPECT_EQ(balance.queued().up_bytes, 0U);
  EXPECT_EQ(balance.queued().down_bytes, 0U);
  EXPECT_EQ(balance.queued().host_bytes, 0U);
  EXPECT_EQ(balance.place(adam(), space_, now_ns + kNsPerS).runs_at, Tier::kDevice);
}

TEST_F(Balance, WhatIsWithdrawnOrPlacedAgainIsQueuedOnce) {
  UpdateBalance balance = with(13e9, 300e9);
  const Launch update = adam();
  UpdateBalance::Placement placement = balance.place(update, space_, 0);
  ASSERT_EQ(placement.runs_at, Tier::kHost);
  balance.withdrawn(update, placement.host_bytes);
  EXPECT_EQ(balance.queued().host_bytes, 0U);
  EXPECT_EQ(balance.queued().up_bytes + balance.queued().down_bytes, 0U);
  placement = balance.place(update, space_, 0);
  balance.update_ended(placement.host_bytes, 1'000'000);
  (void)balance.place(update, space_, 0);
  EXPECT_EQ(balance.queued().up_bytes, kBlockBytes);
  EXPECT_EQ(balance.queued().down_bytes, kBlockBytes);
}

// It was there when the last update was placed, and had to come for it all the same: when the next
// one runs it will have left again.
TEST_F(Balance, WhatHadToComeSinceDoesNotStay) {
  UpdateBalance balance = with(13e9, 300e9);
  const Launch update = adam();
  for (const std::size_t state : {2U, 3U}) {
    space_.block(update.accesses[state].first_block).copies.add(Tier::kDevice);
  }
  EXPECT_EQ(balance.place(update, space_, 0).runs_at, Tier::kDevice);
  EXPECT_EQ(balance.place(update, space_, 1).runs_at, Tier::kDevice);
  const Transfer back = move(Tier::kHost, Tier::kDevice,
                             {update.accesses[2].first_block, update.accesses[3].first_block});
  balance.transfer_began(back, 2);
  balance.transfer_ended(back, 3);
  EXPECT_EQ(balance.place(update, space_, 4).runs_at, Tier::kHost);
  EXPECT_EQ(balance.place(update, space_, 5).runs_at, Tier::kDevice);
}

// What is freed never moves: after a while it is nobody's work.
TEST_F(Balance, WhatNeverMovesIsForgotten) {
  UpdateBalance balance = with(13e9, 20e9);
  placed_at_host(balance, 100);
  EXPECT_GT(balance.queued().down_bytes, 0U);
  (void)balance.place(adam(), space_, 5 * kNsPerS);
  EXPECT_LE(balance.queued().up_bytes, 2 * kBlockBytes);
  EXPECT_LE(balance.queued().down_bytes, 2 * kBlockBytes);
}

// On the host platform the same cores compute on both sides, so only what moves can be saved.
TEST_F(Balance, WhereTheSameCoresComputeWhatMovesDecides) {
  UpdateBalance balance = with(13e9, 20e9, UpdateBalance::Device::kHostMemory);
  EXPECT_EQ(placed_at_host(balance), kUpdates);
  Launch update = adam();
  space_.block(update.accesses[2].first_block).copies.add(Tier::kDevice);
  // It moves 4 up and 4 down as well on the device; at the host 8 up, 4 down.
  EXPECT_EQ(balance.place(update, space_, 0).runs_at, Tier::kDevice);
}

}  // namespace
}  // namespace spillway
