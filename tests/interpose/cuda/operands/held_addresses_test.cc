// Addresses in one piece of memory: what is replaced is forgotten, what stays is not.
#include "interpose/cuda/operands/held_addresses.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "base/rng.h"

namespace spillway::cuda {
namespace {

NamedMemory naming(std::uint64_t allocation) {
  NamedMemory named;
  named.put(allocation, {.start = allocation, .bytes = 1});
  return named;
}

std::set<std::uint64_t> named_by(const HeldAddresses& held) {
  std::set<std::uint64_t> all;
  held.for_each([&](const NamedMemory::One& one) { all.insert(one.allocation); });
  return all;
}

TEST(HeldAddresses, WhatIsReplacedAsAWholeIsForgotten) {
  HeldAddresses held;
  held.add({.start = 0, .bytes = 80}, naming(1), 1);
  held.add({.start = 80, .bytes = 80}, naming(2), 2);
  held.add({.start = 0, .bytes = 80}, naming(3), 3);
  held.replaced({.start = 0, .bytes = 80}, 2);
  EXPECT_EQ(named_by(held), (std::set<std::uint64_t>{2, 3}));
}

TEST(HeldAddresses, WhatIsReplacedInPartsIsForgottenWithTheLast) {
  HeldAddresses held;
  held.add({.start = 0, .bytes = 80}, naming(1), 1);
  held.replaced({.start = 0, .bytes = 8}, 1);
  held.replaced({.start = 40, .bytes = 100}, 1);
  EXPECT_EQ(named_by(held), (std::set<std::uint64_t>{1}));
  held.replaced({.start = 16, .bytes = 8}, 1);  // in its midst
  EXPECT_EQ(named_by(held), (std::set<std::uint64_t>{1}));
  held.replaced({.start = 8, .bytes = 32}, 1);
  EXPECT_EQ(named_by(held), (std::set<std::uint64_t>{}));
}

TEST(HeldAddresses, TheSameAgainAndAgainTakesNoMorePlace) {
  HeldAddresses held;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    held.add_more({.start = 8, .bytes = 8}, naming(i % 3), i);
  }
  EXPECT_EQ(held.pieces(), 1U);
  EXPECT_EQ(held.size(), 3U);
}

// Words that a slow model knows one by one.
TEST(HeldAddresses, WhatStandsThereIsNeverForgotten) {
  constexpr std::uint64_t kWords = 200;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    HeldAddresses held;
    std::map<std::uint64_t, std::uint64_t> model;
    for (std::uint64_t now = 1; now < 1000; ++now) {
      const std::uint64_t first = rng.below(kWords);
      const std::uint64_t words = 1 + rng.below(rng.below(4) == 0 ? kWords - first : 3);
      const AddressRange where{.start = 8 * first, .bytes = 8 * words};
      NamedMemory named;
      for (std::uint64_t word = first; word < first + words; ++word) {
        model.erase(word);
        if (rng.below(4) == 0) {
          model[word] = rng.below(50);
          named.put(model[word], {.start = model[word], .bytes = 1});
        }
      }
      held.add(where, std::move(named), now);
      held.replaced(where, now - 1);
      const std::set<std::uint64_t> found = named_by(held);
      for (const auto& [word, allocation] : model) {
        ASSERT_TRUE(found.contains(allocation)) << seed << ' ' << now << ' ' << word;
      }
      ASSERT_LE(held.pieces(), 65U);
    }
    held.replaced({.start = 0, .bytes = 8 * (2 * kWords)}, 1000);
    EXPECT_EQ(held.pieces(), 0U);
  }
}

}  // namespace
}  // namespace spillway::cuda
