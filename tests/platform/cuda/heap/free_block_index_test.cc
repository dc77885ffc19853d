// What a heap keeps: lowest address of a size first, oldest of all known, however much was taken
// and given up in between.
#include "heap/free_block_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace spillway {
namespace {

using Stream = FreeBlockIndex::Stream;

class Kept : public ::testing::Test {
 protected:
  // Streams by number.
  static Stream stream(std::uintptr_t number) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): never followed
    return reinterpret_cast<Stream>(number);
  }
  FreeBlockIndex kept;
};

TEST_F(Kept, TheLowestOfTheSmallestSizeInItsOrder) {
  EXPECT_TRUE(kept.empty());
  kept.keep(stream(1), 20, 900, 0);
  kept.keep(stream(1), 20, 300, 1);
  kept.keep(stream(1), 30, 100, 2);
  kept.keep(stream(2), 10, 200, 3);
  EXPECT_EQ(kept.bytes(), 80U);
  EXPECT_EQ(kept.find(stream(1), 20, 20)->slot, 1U);
  EXPECT_EQ(kept.find(stream(1), 10, 40)->size, 20U);
  EXPECT_EQ(kept.find(stream(1), 21, 40)->slot, 2U);
  EXPECT_FALSE(kept.find(stream(1), 21, 29));
  EXPECT_FALSE(kept.find(stream(2), 20, 30));
  EXPECT_FALSE(kept.find(stream(3), 1, 100));
  EXPECT_EQ(kept.oldest(), 0U);
  kept.remove(0);
  EXPECT_EQ(kept.oldest(), 1U);
  kept.remove(1);
  EXPECT_FALSE(kept.find(stream(1), 20, 20));
  EXPECT_EQ(kept.forget(stream(1)), std::vector<FreeBlockIndex::Slot>{2});
  EXPECT_EQ(kept.oldest(), 3U);
  kept.remove(3);
  EXPECT_TRUE(kept.empty());
  EXPECT_EQ(kept.bytes(), 0U);
}

// Against a set and a list of all, with sizes that come once and slots that change their address.
TEST_F(Kept, IsWhatItSaysForLong) {
  struct One {
    std::uintptr_t stream = 0;
    Bytes size = 0;
    std::uint64_t address = 0;
  };
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): the same each time
  std::map<FreeBlockIndex::Slot, One> is;
  std::vector<FreeBlockIndex::Slot> by_age;
  std::vector<FreeBlockIndex::Slot> free_slots;
  for (FreeBlockIndex::Slot slot = 0; slot < 3000; ++slot) {
    free_slots.push_back(slot);
  }
  const auto gone = [&](FreeBlockIndex::Slot slot) {
    is.erase(slot);
    std::erase(by_age, slot);
    free_slots.push_back(slot);
  };
  std::uint64_t addresses = 0;
  for (int step = 0; step < 40'000; ++step) {
    const std::uintptr_t in = 1 + random() % 3;
    const bool grows = step % 10'000 < 4'000;
    if (!free_slots.empty() && random() % 8 < (grows ? 5U : 3U)) {
      const Bytes size = random() % 4 == 0 ? 1000 + addresses : 1 + random() % 50;
      const FreeBlockIndex::Slot slot = free_slots.back();
      free_slots.pop_back();
      const std::uint64_t address = (++addresses * 7919) % 100'003;
      kept.keep(stream(in), size, address, slot);
      is[slot] = {.stream = in, .size = size, .address = address};
      by_age.push_back(slot);
    } else if (random() % 3 == 0 && !by_age.empty()) {
      ASSERT_EQ(kept.oldest(), by_age.front());
      kept.remove(by_age.front());
      gone(by_age.front());
    } else {
      const Bytes size = 1 + random() % 50;
      const Bytes most = random() % 2 == 0 ? size : size + random() % 2000;
      const One* best = nullptr;
      FreeBlockIndex::Slot best_slot = 0;
      for (const auto& [slot, one] : is) {
        if (one.stream == in && one.size >= size && one.size <= most &&
            (best == nullptr ||
             std::tie(one.size, one.address) < std::tie(best->size, best->address))) {
          best = &one;
          best_slot = slot;
        }
      }
      const auto found = kept.find(stream(in), size, most);
      ASSERT_EQ(found.has_value(), best != nullptr);
      if (found) {
        ASSERT_EQ(found->slot, best_slot);
        ASSERT_EQ(found->size, best->size);
        kept.remove(best_slot);
        gone(best_slot);
      }
    }
    if (step % 9'973 == 9'972) {
      for (const FreeBlockIndex::Slot slot : kept.forget(stream(2))) {
        ASSERT_EQ(is.at(slot).stream, 2U);
        gone(slot);
      }
      ASSERT_TRUE(
          std::none_of(is.begin(), is.end(), [](const auto& it) { return it.second.stream == 2; }));
    }
  }
  Bytes bytes = 0;
  for (const auto& [slot, one] : is) {
    bytes += one.size;
  }
  EXPECT_EQ(kept.bytes(), bytes);
  EXPECT_GT(is.size(), 100U);
}

// Of one size so many that what was given up in between is looked for.
TEST_F(Kept, ManyOfOneSize) {
  std::mt19937_64 random(8);  // NOLINT(cert-msc51-cpp): the same each time
  std::uint64_t address = 0;
  std::set<std::pair<std::uint64_t, FreeBlockIndex::Slot>> is;
  std::deque<FreeBlockIndex::Slot> by_age;
  std::map<FreeBlockIndex::Slot, std::uint64_t> address_of;
  FreeBlockIndex::Slot slots = 0;
  for (int step = 0; step < 20'000; ++step) {
    address = (address + 618'033'989) % 1'000'000'007;
    kept.keep(stream(1), 512, address, slots);
    is.insert({address, slots});
    by_age.push_back(slots);
    address_of[slots++] = address;
    // Low addresses are taken at once, and high ones grow old.
    const bool take = random() % 2 == 0;
    if (is.size() > 1'500) {
      const FreeBlockIndex::Slot slot = take ? is.begin()->second : by_age.front();
      ASSERT_EQ(take ? kept.find(stream(1), 512, 512)->slot : kept.oldest(), slot);
      kept.remove(slot);
      is.erase({address_of[slot], slot});
      std::erase(by_age, slot);
    }
  }
  ASSERT_EQ(kept.bytes(), 512 * is.size());
  while (!is.empty()) {
    const FreeBlockIndex::Slot slot = kept.find(stream(1), 512, 512)->slot;
    ASSERT_EQ(slot, is.begin()->second);
    kept.remove(slot);
    is.erase(is.begin());
  }
  EXPECT_TRUE(kept.empty());
}

}  // namespace
}  // namespace spillway
