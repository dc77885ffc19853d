// Addresses of allocations: alignment, names, and how late they are given out again.
#include "platform/cuda/memory/address_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"

namespace spillway::cuda {
namespace {

constexpr std::uint64_t kStart = 64 * kMiB;

TEST(AddressRanges, FreshOnesComeFirstAndFreedOnesLate) {
  AddressRanges ranges(kStart, 16 * kMiB);
  const auto first = ranges.take(4 * kMiB, kBlockBytes);
  ASSERT_EQ(first, kStart);
  ranges.give_back(*first, 4 * kMiB);
  EXPECT_EQ(ranges.take(4 * kMiB, kBlockBytes), kStart + 4 * kMiB);
  EXPECT_EQ(ranges.take(8 * kMiB, kBlockBytes), kStart + 8 * kMiB);
  // Nothing else is left.
  EXPECT_EQ(ranges.take(4 * kMiB, kBlockBytes), kStart);
  EXPECT_EQ(ranges.take(kBlockBytes, kBlockBytes), std::nullopt);
}

// Days of allocations: addresses rest, but not so many that what is known of their pages grows for
// ever, although there would be fresh ones.
TEST(AddressRanges, NoMoreRestThanWasSaid) {
  AddressRanges ranges(kStart, 1024 * kMiB, 64 * kMiB);
  std::uint64_t highest = 0;
  std::uint64_t last = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t at = ranges.take(2 * kBlockBytes, kBlockBytes).value_or(0);
    ASSERT_GE(at, kStart);
    ASSERT_NE(at, last);  // it has only just been freed
    highest = std::max(highest, at);
    last = at;
    ranges.give_back(at, 2 * kBlockBytes);
  }
  EXPECT_LE(highest, kStart + 128 * kMiB);
}

TEST(AddressRanges, TheOldestIsGivenOutFirst) {
  AddressRanges ranges(kStart, 16 * kMiB);
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(ranges.take(4 * kMiB, kBlockBytes).value_or(0));
  }
  for (const int i : {2, 0, 3, 1}) {
    ranges.give_back(all[static_cast<std::size_t>(i)], 4 * kMiB);
  }
  const auto again = ranges.take(4 * kMiB, kBlockBytes);
  EXPECT_TRUE(again == all[2] || again == all[0]);  // the older half
}

TEST(AddressRanges, NeighboursBecomeOneRun) {
  AddressRanges ranges(kStart, 16 * kMiB);
  for (int i = 0; i < 8; ++i) {
    ranges.give_back(ranges.take(kBlockBytes, kBlockBytes).value_or(0), kBlockBytes);
  }
  EXPECT_EQ(ranges.take(16 * kMiB, kBlockBytes), kStart);
}

TEST(AddressRanges, LargeBlocksLieAtMultiplesOfTheirSize) {
  AddressRanges ranges(kStart + kBlockBytes, 128 * kMiB);
  const auto large = ranges.take(32 * kMiB, 32 * kMiB);
  ASSERT_TRUE(large);
  EXPECT_EQ(*large % (32 * kMiB), 0U);
  // What was passed over is not lost.
  std::uint64_t small = 0;
  for (int i = 0; i < 64 && !(small > 0 && small < *large); ++i) {
    small = ranges.take(kBlockBytes, kBlockBytes).value_or(0);
  }
  EXPECT_LT(small, *large);
}

TEST(AddressRanges, NamesTheAllocationInWhichAnAddressLies) {
  AddressRanges ranges(kStart, 16 * kMiB);
  ranges.name(kStart, 1000, 7);
  ranges.name(kStart + 1024, 24, 8);
  EXPECT_EQ(ranges.at(kStart + 999)->number, 7U);
  EXPECT_EQ(ranges.at(kStart + 1000), nullptr);
  EXPECT_EQ(ranges.at(kStart + 1030)->start, kStart + 1024);
  EXPECT_EQ(ranges.at(kStart - 1), nullptr);
  EXPECT_EQ(ranges.pointed_at(kStart + 1000).ends->number, 7U);
  EXPECT_EQ(ranges.pointed_at(kStart + 1001).ends, nullptr);
  ranges.forget(kStart);
  EXPECT_EQ(ranges.at(kStart + 5), nullptr);
  EXPECT_TRUE(ranges.contains(kStart + 5));
  EXPECT_FALSE(ranges.contains(kStart + 16 * kMiB));
}

// Small ones share pages, large ones reach over many; some are dead. Beside a plain list.
TEST(AddressRanges, ARandomProgramFindsItsNames) {
  struct Named {
    std::uint64_t at;
    Bytes bytes;
    std::uint32_t number;
    bool dead;
  };
  constexpr Bytes kStep = 64 * 1024;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    AddressRanges ranges(kStart, 64 * kMiB);
    std::vector<Named> names;
    for (std::uint32_t i = 0; i < 1000; ++i) {
      const std::uint64_t at = kStart + kStep * rng.below(64 * kMiB / kStep);
      const Bytes any = 1 + rng.below(rng.chance(0.5) ? kStep : 8 * kMiB);
      const Bytes bytes =
          std::min<Bytes>(rng.chance(0.5) ? any : round_up(any, kStep), kStart + 64 * kMiB - at);
      const bool free = std::none_of(names.begin(), names.end(), [&](const Named& it) {
        return at < it.at + it.bytes && it.at < at + bytes;
      });
      if (free) {
        ranges.name(at, bytes, i);
        names.push_back({at, bytes, i, false});
      } else if (const std::size_t which = rng.below(names.size()); rng.chance(0.5)) {
        ranges.forget(names[which].at);
        names.erase(names.begin() + static_cast<std::ptrdiff_t>(which));
      } else {
        names[which].dead = !names[which].dead;
        ranges.starting_at(names[which].at)->set_dead(names[which].dead);
      }
      for (int k = 0; k < 20; ++k) {
        const std::uint64_t asked = kStart + rng.below(64 * kMiB);
        const auto expected = std::find_if(names.begin(), names.end(), [&](const Named& it) {
          return asked >= it.at && asked < it.at + it.bytes;
        });
        const AddressRanges::Named* const found = ranges.at(asked);
        EXPECT_EQ(ranges.pointed_at(asked).in, found);
        ASSERT_EQ(found != nullptr, expected != names.end()) << "seed " << seed;
        if (found != nullptr) {
          EXPECT_EQ(found->number, expected->number);
          EXPECT_EQ(found->start, expected->at);
          EXPECT_EQ(found->bytes, expected->bytes);
          EXPECT_EQ(found->is_dead(), expected->dead);
        }
      }
      for (const Named& it : names) {
        const AddressRanges::Pointed start = ranges.pointed_at(it.at);
        const AddressRanges::Pointed end = ranges.pointed_at(it.at + it.bytes);
        ASSERT_NE(start.in, nullptr) << "seed " << seed;
        EXPECT_EQ(start.in->number, it.number);
        ASSERT_EQ(end.ends != nullptr, it.at + it.bytes < kStart + 64 * kMiB) << "seed " << seed;
        if (end.ends != nullptr) {
          EXPECT_EQ(end.ends->number, it.number);
        }
        const bool before = std::any_of(names.begin(), names.end(), [&](const Named& other) {
          return other.at + other.bytes == it.at;
        });
        EXPECT_EQ(start.ends != nullptr, before);
      }
    }
  }
}

// Whatever is taken and given back: no two runs overlap, and in the end all of it is there again.
TEST(AddressRanges, ARandomProgramGetsRunsOfItsOwn) {
  struct Taken {
    std::uint64_t at;
    Bytes bytes;
  };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    AddressRanges ranges(kStart, 256 * kMiB);
    std::vector<Taken> taken;
    for (int i = 0; i < 2000; ++i) {
      if (!taken.empty() && rng.chance(0.5)) {
        const std::size_t which = rng.below(taken.size());
        ranges.give_back(taken[which].at, taken[which].bytes);
        taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(which));
        continue;
      }
      const Bytes bytes = kBlockBytes * (1 + rng.below(20));
      const Bytes alignment = rng.chance(0.3) ? 32 * kMiB : kBlockBytes;
      const auto at = ranges.take(bytes, alignment);
      if (!at) {
        continue;
      }
      ASSERT_EQ(*at % alignment, 0U);
      ASSERT_TRUE(ranges.contains(*at) && ranges.contains(*at + bytes - 1));
      for (const Taken& other : taken) {
        ASSERT_TRUE(*at + bytes <= other.at || other.at + other.bytes <= *at) << "seed " << seed;
      }
      taken.push_back({*at, bytes});
    }
    for (const Taken& it : taken) {
      ranges.give_back(it.at, it.bytes);
    }
    Bytes found = 0;
    while (ranges.take(kBlockBytes, kBlockBytes)) {
      found += kBlockBytes;
    }
    EXPECT_EQ(found, 256 * kMiB) << "seed " << seed;
  }
}

}  // namespace
}  // namespace spillway::cuda
