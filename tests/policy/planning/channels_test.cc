// What links and storage can carry in each slot of the ring, worked by hand and against a model
// that moves byte by byte.
#include "policy/planning/channels.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

#include "base/rng.h"

namespace spillway {
namespace {

// Slots of 10, 20, 10 and 5 ns. Bytes that fit: link out 40, 80, 40, 20; link in 20, 40, 20, 10;
// storage, each way, 10, 20, 10, 5.
Machine machine() {
  Machine made;
  made.link.from_device_bytes_per_s = 4e9;
  made.link.to_device_bytes_per_s = 2e9;
  made.storage.write_bytes_per_s = 1e9;
  made.storage.read_bytes_per_s = 1e9;
  return made;
}
const std::vector<TimeNs> kSlots{10, 20, 10, 5};

class ChannelsTest : public testing::Test {
 protected:
  Channels channels_{machine(), kSlots};
};

TEST_F(ChannelsTest, EvictionEndsInTheSlotInWhichItsLastByteLeaves) {
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 40, 0, 4), 0U);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 41, 0, 4), 1U);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 120, 0, 4), 1U);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 180, 0, 4), 3U);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 80, 1, 4), 1U);
  EXPECT_EQ(channels_.earliest_end(Tier::kStorage, 10, 0, 4), 0U);
  EXPECT_EQ(channels_.earliest_end(Tier::kStorage, 30, 0, 4), 1U);
  EXPECT_EQ(channels_.earliest_end(Tier::kStorage, 31, 0, 4), 2U);
}

TEST_F(ChannelsTest, EvictionMustEndBeforeItsLimit) {
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 41, 0, 1), std::nullopt);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 41, 0, 2), 1U);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 1, 2, 2), std::nullopt);
  EXPECT_EQ(channels_.earliest_end(Tier::kStorage, 46, 0, 4), std::nullopt);
}

TEST_F(ChannelsTest, FetchStartsInTheSlotInWhichItsFirstByteMoves) {
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 20, 3, 0), 2U);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 21, 3, 0), 1U);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 61, 3, 0), 0U);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 80, 3, 0), 0U);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 81, 3, 0), std::nullopt);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 21, 3, 2), std::nullopt);
  EXPECT_EQ(channels_.latest_start(Tier::kStorage, 15, 4, 0), 2U);
  EXPECT_EQ(channels_.latest_start(Tier::kStorage, 16, 4, 0), 1U);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 1, 2, 2), std::nullopt);
}

TEST_F(ChannelsTest, WhatIsTakenOutIsGone) {
  channels_.take_out(Tier::kHost, 30, 0);  // the link out of slot 0 has 10 left
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 10, 0, 4), 0U);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 11, 0, 4), 1U);
  EXPECT_EQ(channels_.earliest_end(Tier::kStorage, 10, 0, 4), 0U);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 80, 3, 0), 0U);  // the other direction is untouched
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 81, 3, 0), std::nullopt);
  channels_.take_out(Tier::kHost, 5, 0);  // 5 left, so storage gets only 5 through it
  EXPECT_EQ(channels_.earliest_end(Tier::kStorage, 5, 0, 4), 0U);
  EXPECT_EQ(channels_.earliest_end(Tier::kStorage, 6, 0, 4), 1U);
  EXPECT_EQ(channels_.earliest_end(Tier::kStorage, 25, 0, 4), 1U);
  EXPECT_EQ(channels_.earliest_end(Tier::kStorage, 26, 0, 4), 2U);
}

TEST_F(ChannelsTest, StorageTakesTheLinkToo) {
  channels_.take_out(Tier::kStorage, 25, 0);  // 10 in slot 0, 15 in slot 1
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 30, 0, 4), 0U);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 31, 0, 4), 1U);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 65, 1, 4), 1U);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 66, 1, 4), 2U);
  EXPECT_EQ(channels_.earliest_end(Tier::kStorage, 5, 0, 4), 1U);
  EXPECT_EQ(channels_.earliest_end(Tier::kStorage, 6, 0, 4), 2U);
  channels_.take_in(Tier::kStorage, 15, 3);  // 10 in slot 2, 5 in slot 1
  EXPECT_EQ(channels_.latest_start(Tier::kStorage, 15, 3, 0), 1U);
  EXPECT_EQ(channels_.latest_start(Tier::kStorage, 16, 3, 0), 0U);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 10, 3, 0), 2U);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 45, 3, 0), 1U);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 46, 3, 0), 0U);
}

TEST_F(ChannelsTest, HostTrafficLeavesStorageAlone) {
  channels_.take_out(Tier::kHost, 180, 0);  // the whole link
  EXPECT_EQ(channels_.earliest_end(Tier::kStorage, 1, 0, 8), std::nullopt);
  Channels narrow(machine(), kSlots);
  narrow.take_out(Tier::kHost, 30, 0);
  EXPECT_EQ(narrow.earliest_end(Tier::kStorage, 30, 0, 4), 1U);
}

TEST_F(ChannelsTest, SlotsGoAroundTheRing) {
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 60, 3, 8), 4U);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 61, 3, 8), 5U);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 20, 5, 3), 4U);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 21, 5, 3), 3U);
  channels_.take_out(Tier::kHost, 50, 3);  // 20 in slot 3, 30 in the next iteration's slot 0
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 10, 0, 4), 0U);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 11, 0, 4), 1U);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 1, 3, 4), std::nullopt);
  channels_.take_in(Tier::kHost, 25, 1);  // 20 in slot 0, 5 in slot 3 of the iteration before
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 1, 1, 0), std::nullopt);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 5, 4, 0), 3U);
  EXPECT_EQ(channels_.latest_start(Tier::kHost, 6, 4, 0), 2U);
}

TEST_F(ChannelsTest, MoreThanAnIterationCarriesTakesAllOfItAndNoMore) {
  channels_.take_out(Tier::kStorage, 1000, 2);
  EXPECT_EQ(channels_.earliest_end(Tier::kStorage, 1, 0, 100), std::nullopt);
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 135, 0, 4), 3U);  // 180 - 45
  EXPECT_EQ(channels_.earliest_end(Tier::kHost, 136, 0, 4), std::nullopt);
}

// Byte by byte, as plainly as possible.
struct NaiveChannels {
  using PerSlot = std::vector<int>;
  std::array<PerSlot, 2> link;  // [out, in]
  std::array<PerSlot, 2> storage;

  [[nodiscard]] bool byte(std::size_t direction, Tier tier, std::size_t slot) {
    int& through = link[direction][slot % link[direction].size()];
    int& below = storage[direction][slot % link[direction].size()];
    if (through == 0 || (tier == Tier::kStorage && below == 0)) return false;
    --through;
    below -= tier == Tier::kStorage ? 1 : 0;
    return true;
  }
  std::optional<std::size_t> out(Tier tier, Bytes bytes, std::size_t first, std::size_t limit) {
    for (std::size_t slot = first; slot < limit; ++slot) {
      while (byte(0, tier, slot)) {
        if (--bytes == 0) return slot;
      }
    }
    return std::nullopt;
  }
  std::optional<std::size_t> in(Tier tier, Bytes bytes, std::size_t last, std::size_t limit) {
    for (std::size_t slot = last; slot > limit; --slot) {
      while (byte(1, tier, slot - 1)) {
        if (--bytes == 0) return slot - 1;
      }
    }
    return std::nullopt;
  }
};

TEST(Channels, AgreeWithAModelThatMovesByteByByte) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const std::size_t slots = 1 + rng.below(12);
    std::vector<TimeNs> slot_ns;
    NaiveChannels naive;
    for (std::size_t i = 0; i < slots; ++i) {
      const int ns = static_cast<int>(rng.below(30));  // 0 too
      slot_ns.push_back(ns);
      naive.link[0].push_back(4 * ns);
      naive.link[1].push_back(2 * ns);
      naive.storage[0].push_back(ns);
      naive.storage[1].push_back(ns);
    }
    Channels channels(machine(), slot_ns);
    for (int step = 0; step < 60; ++step) {
      const Tier tier = rng.chance(0.5) ? Tier::kHost : Tier::kStorage;
      const Bytes bytes = 1 + rng.below(60);
      const std::size_t from = rng.below(2 * slots);
      const std::size_t length = rng.below(slots + 1);
      NaiveChannels trial = naive;
      if (rng.chance(0.5)) {
        ASSERT_EQ(channels.earliest_end(tier, bytes, from, from + length),
                  trial.out(tier, bytes, from, from + length));
        channels.take_out(tier, bytes, from);
        (void)naive.out(tier, bytes, from, from + slots);
      } else {
        ASSERT_EQ(channels.latest_start(tier, bytes, from + length, from),
                  trial.in(tier, bytes, from + length, from));
        channels.take_in(tier, bytes, from);
        (void)naive.in(tier, bytes, from + slots, from);
      }
    }
  }
}

}  // namespace
}  // namespace spillway
