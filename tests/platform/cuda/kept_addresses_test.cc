// What a heap keeps: lowest address of a size first, oldest of all known, however much was taken
// and given up in between.
#include "runtime/cuda/kept_addresses.h"

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

using Order = KeptAddresses::Order;

class Kept : public ::testing::Test {
 protected:
  // Streams by number.
  static Order order(std::uintptr_t number) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): never followed
    return reinterpret_cast<Order>(number);
  }
  KeptAddresses kept;
};

TEST_F(Kept, TheLowestOfTheSmallestSizeInItsOrder) {
  EXPECT_TRUE(kept.empty());
  kept.keep(order(1), 20, 900, 0);
  kept.keep(order(1), 20, 300, 1);
  kept.keep(order(1), 30, 100, 2);
  kept.keep(order(2), 10, 200, 3);
  EXPECT_EQ(kept.bytes(), 80U);
  EXPECT_EQ(kept.find(order(1), 20, 20)->slot, 1U);
  EXPECT_EQ(kept.find(order(1), 10, 40)->size, 20U);
  EXPECT_EQ(kept.find(order(1), 21, 40)->slot, 2U);
  EXPECT_FALSE(kept.find(order(1), 21, 29));
  EXPECT_FALSE(kept.find(order(2), 20, 30));
  EXPECT_FALSE(kept.find(order(3), 1, 100));
  EXPECT_EQ(kept.oldest(), 0U);
  kept.remove(0);
  EXPECT_EQ(kept.oldest(), 1U);
  kept.remove(1);
  EXPECT_FALSE(kept.find(order(1), 20, 20));
  EXPECT_EQ(kept.forget(order(1)), std::vector<KeptAddresses::Slot>{2});
  EXPECT_EQ(kept.oldest(), 3U);
  kept.remove(3);
  EXPECT_TRUE(kept.empty());
  EXPECT_EQ(kept.bytes(), 0U);
}

// Against a set and a list of all, with sizes that come once and slots that change their address.
TEST_F(Kept, IsWhatItSaysForLong) {
  struct One {
    std::uintptr_t order = 0;
    Bytes size = 0;
    std::uint64_t address = 0;
  };
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): the same each time
  std::map<KeptAddresses::Slot, One> is;
  std::vector<KeptAddresses::Slot> by_age;
  std::vector<KeptAddresses::Slot> free_slots;
  for (KeptAddresses::Slot slot = 0; slot < 3000; ++slot) {
    free_slots.push_back(slot);
  }
  const auto gone = [&](KeptAddresses::Slot slot) {
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
      const KeptAddresses::Slot slot = free_slots.back();
      free_slots.pop_back();
      const std::uint64_t address = (++addresses * 7919) % 100'003;
      kept.keep(order(in), size, address, slot);
      is[slot] = {.order = in, .size = size, .address = address};
      by_age.push_back(slot);
    } else if (random() % 3 == 0 && !by_age.empty()) {
      ASSERT_EQ(kept.oldest(), by_age.front());
      kept.remove(by_age.front());
      gone(by_age.front());
    } else {
      const Bytes size = 1 + random() % 50;
      const Bytes most = random() % 2 == 0 ? size : size + random() % 2000;
      const One* best = nullptr;
      KeptAddresses::Slot best_slot = 0;
      for (const auto& [slot, one] : is) {
        if (one.order == in && one.size >= size && one.size <= most &&
            (best == nullptr ||
             std::tie(one.size, one.address) < std::tie(best->size, best->address))) {
          best = &one;
          best_slot = slot;
        }
      }
      const auto found = kept.find(order(in), size, most);
      ASSERT_EQ(found.has_value(), best != nullptr);
      if (found) {
        ASSERT_EQ(found->slot, best_slot);
        ASSERT_EQ(found->size, best->size);
        kept.remove(best_slot);
        gone(best_slot);
      }
    }
    if (step % 9'973 == 9'972) {
      for (const KeptAddresses::Slot slot : kept.forget(order(2))) {
        ASSERT_EQ(is.at(slot).order, 2U);
        gone(slot);
      }
      ASSERT_TRUE(
          std::none_of(is.begin(), is.end(), [](const auto& it) { return it.second.order == 2; }));
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
  std::set<std::pair<std::uint64_t, KeptAddresses::Slot>> is;
  std::deque<KeptAddresses::Slot> by_age;
  std::map<KeptAddresses::Slot, std::uint64_t> address_of;
  KeptAddresses::Slot slots = 0;
  for (int step = 0; step < 20'000; ++step) {
    address = (address + 618'033'989) % 1'000'000'007;
    kept.keep(order(1), 512, address, slots);
    is.insert({address, slots});
    by_age.push_back(slots);
    address_of[slots++] = address;
    // Low addresses are taken at once, and high ones grow old.
    const bool take = random() % 2 == 0;
    if (is.size() > 1'500) {
      const KeptAddresses::Slot slot = take ? is.begin()->second : by_age.front();
      ASSERT_EQ(take ? kept.find(order(1), 512, 512)->slot : kept.oldest(), slot);
      kept.remove(slot);
      is.erase({address_of[slot], slot});
      std::erase(by_age, slot);
    }
  }
  ASSERT_EQ(kept.bytes(), 512 * is.size());
  while (!is.empty()) {
    const KeptAddresses::Slot slot = kept.find(order(1), 512, 512)->slot;
    ASSERT_EQ(slot, is.begin()->second);
    kept.remove(slot);
    is.erase(is.begin());
  }
  EXPECT_TRUE(kept.empty());
}

}  // namespace
}  // namespace spillway
