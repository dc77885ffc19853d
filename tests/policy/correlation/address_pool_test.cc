// First fit from either end, by hand and against a map of every unit.
#include "policy/correlation/address_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace spillway {
namespace {

TEST(AddressPool, PlacesFromEitherEnd) {
  AddressPool pool(100);
  EXPECT_EQ(pool.take_left(30), 0U);
  EXPECT_EQ(pool.take_right(20), 80U);
  EXPECT_EQ(pool.take_left(10), 30U);
  EXPECT_EQ(pool.take_right(40), 40U);
  EXPECT_EQ(pool.largest_free_bytes(), 0U);
  EXPECT_EQ(pool.take_left(1), std::nullopt);
  EXPECT_EQ(pool.take_right(1), std::nullopt);
}

TEST(AddressPool, EnoughMemoryInPiecesThatAreTooSmall) {
  AddressPool pool(30);
  EXPECT_EQ(pool.take_left(10), 0U);
  EXPECT_EQ(pool.take_left(10), 10U);
  EXPECT_EQ(pool.take_left(10), 20U);
  pool.give_back(0, 10);
  pool.give_back(20, 10);
  EXPECT_EQ(pool.largest_free_bytes(), 10U);
  EXPECT_EQ(pool.take_left(11), std::nullopt);
  EXPECT_EQ(pool.take_right(11), std::nullopt);
  pool.give_back(10, 10);  // all three pieces become one
  EXPECT_EQ(pool.largest_free_bytes(), 30U);
  EXPECT_EQ(pool.take_right(30), 0U);
}

TEST(AddressPool, FirstFitNotBestFit) {
  AddressPool pool(100);
  EXPECT_EQ(pool.take_left(40), 0U);
  EXPECT_EQ(pool.take_left(10), 40U);
  EXPECT_EQ(pool.take_left(20), 50U);
  EXPECT_EQ(pool.take_left(30), 70U);
  pool.give_back(0, 40);
  pool.give_back(50, 20);
  EXPECT_EQ(pool.take_left(20), 0U);    // although 50 would fit exactly
  EXPECT_EQ(pool.take_right(15), 55U);  // the right end of the rightmost piece
}

TEST(AddressPool, Empty) {
  AddressPool pool(0);
  EXPECT_EQ(pool.take_left(1), std::nullopt);
  EXPECT_EQ(pool.take_right(1), std::nullopt);
  EXPECT_EQ(pool.largest_free_bytes(), 0U);
}

// Which units are taken, and every question answered by looking at all of them.
struct NaivePool {
  std::vector<bool> taken;

  [[nodiscard]] bool free_at(std::size_t start, std::size_t units) const {
    return start + units <= taken.size() &&
           std::none_of(taken.begin() + static_cast<std::ptrdiff_t>(start),
                        taken.begin() + static_cast<std::ptrdiff_t>(start + units),
                        [](bool unit) { return unit; });
  }
  [[nodiscard]] std::optional<Bytes> left(std::size_t units) const {
    for (std::size_t start = 0; start < taken.size(); ++start) {
      if (free_at(start, units)) return start;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::optional<Bytes> right(std::size_t units) const {
    for (std::size_t start = taken.size(); start-- > 0;) {
      if (free_at(start, units)) return start;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::size_t largest() const {
    std::size_t units = 0;
    while (left(units + 1)) ++units;
    return units;
  }
  void mark(std::size_t start, std::size_t units, bool value) {
    std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(start), units, value);
  }
};

TEST(AddressPool, AgreesWithAMapOfEveryUnit) {
  constexpr std::size_t kUnits = 64;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    AddressPool pool(kUnits);
    NaivePool naive{std::vector<bool>(kUnits, false)};
    std::vector<std::pair<Bytes, Bytes>> held;
    for (int step = 0; step < 300; ++step) {
      if (!held.empty() && rng.chance(0.45)) {
        const std::size_t which = rng.below(held.size());
        std::swap(held[which], held.back());
        pool.give_back(held.back().first, held.back().second);
        naive.mark(held.back().first, held.back().second, false);
        held.pop_back();
      } else {
        const Bytes units = 1 + rng.below(12);
        const bool left = rng.chance(0.5);
        const std::optional<Bytes> expected = left ? naive.left(units) : naive.right(units);
        ASSERT_EQ(left ? pool.take_left(units) : pool.take_right(units), expected);
        if (expected) {
          naive.mark(*expected, units, true);
          held.emplace_back(*expected, units);
        }
      }
      ASSERT_EQ(pool.largest_free_bytes(), naive.largest());
    }
  }
}

}  // namespace
}  // namespace spillway
