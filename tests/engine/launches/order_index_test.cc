// An order in which things came, with two marks, against a list; values are numbered anew many
// times over.
#include "engine/launches/order_index.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/rng.h"

namespace spillway {
namespace {

constexpr OrderIndex::Mark kFirst = OrderIndex::Mark::kFirst;
constexpr OrderIndex::Mark kSecond = OrderIndex::Mark::kSecond;

TEST(OrderIndex, FindsTheFirstTheLastAndTheNextOfEitherMark) {
  OrderIndex order;
  const auto still = [](auto, auto) { FAIL() << "nothing has to move"; };
  const auto a = order.append(7, still);
  const auto b = order.append(3, still);
  const auto c = order.append(5, still);
  EXPECT_EQ(order.first(kFirst), OrderIndex::kNone);  // they come without marks
  order.set(kFirst, a, true);
  order.set(kFirst, c, true);
  order.set(kSecond, b, true);
  EXPECT_EQ(order.first(kFirst), 7U);
  EXPECT_EQ(order.last(kFirst), 5U);
  EXPECT_EQ(order.after(kFirst, a), 5U);
  EXPECT_EQ(order.after(kFirst, c), OrderIndex::kNone);
  EXPECT_EQ(order.first(kSecond), 3U);
  EXPECT_EQ(order.last(kSecond), 3U);
  EXPECT_EQ(order.size(), 3U);
  order.remove(a);
  EXPECT_EQ(order.first(kFirst), 5U);
  EXPECT_EQ(order.value(a), OrderIndex::kNone);
  EXPECT_FALSE(order.has(kFirst, a));
  order.set(kFirst, c, false);
  EXPECT_EQ(order.first(kFirst), OrderIndex::kNone);
  EXPECT_EQ(order.size(), 2U);
}

// What is in the order and how it is marked, as a plain list has it.
struct Model {
  struct Entry {
    std::uint32_t value = 0;
    bool marks[2] = {false, false};
  };
  [[nodiscard]] std::uint32_t first(std::size_t mark, std::size_t from = 0) const {
    for (std::size_t i = from; i < entries.size(); ++i) {
      if (entries[i].marks[mark]) {
        return entries[i].value;
      }
    }
    return OrderIndex::kNone;
  }
  [[nodiscard]] std::uint32_t last(std::size_t mark) const {
    for (std::size_t i = entries.size(); i-- > 0;) {
      if (entries[i].marks[mark]) {
        return entries[i].value;
      }
    }
    return OrderIndex::kNone;
  }
  std::vector<Entry> entries;
};

TEST(OrderIndex, DoesAsAListDoesAndSaysWhoHasMoved) {
  std::size_t moves = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Rng rng(seed);
    OrderIndex order;
    Model model;
    std::map<std::uint32_t, std::uint32_t> positions;  // by value
    std::uint32_t next_value = 0;
    const std::size_t most = 1 + rng.below(1500);
    for (int step = 0; step < 12'000; ++step) {
      const bool full = model.entries.size() >= most;
      if (model.entries.empty() || (!full && rng.chance(0.6))) {
        const std::uint32_t value = next_value++;
        positions[value] = order.append(value, [&](std::uint32_t moved, std::uint32_t to) {
          ++moves;
          ASSERT_EQ(positions.count(moved), 1U) << "it is not in the order";
          ASSERT_LT(to, positions[moved]);
          positions[moved] = to;
        });
        model.entries.push_back({.value = value});
      }
      const auto at = rng.below(model.entries.size());
      Model::Entry& entry = model.entries[at];
      const std::uint32_t position = positions.at(entry.value);
      ASSERT_EQ(order.value(position), entry.value);
      const std::size_t mark = rng.below(2);
      const OrderIndex::Mark which = mark == 0 ? kFirst : kSecond;
      ASSERT_EQ(order.has(which, position), entry.marks[mark]);
      entry.marks[mark] = rng.chance(0.3);
      order.set(which, position, entry.marks[mark]);
      if (step % 8 == 0) {
        ASSERT_EQ(order.first(which), model.first(mark)) << "seed " << seed;
        ASSERT_EQ(order.last(which), model.last(mark)) << "seed " << seed;
        ASSERT_EQ(order.after(which, position), model.first(mark, at + 1)) << "seed " << seed;
      }
      if (full || rng.chance(0.4)) {
        order.remove(position);
        positions.erase(entry.value);
        model.entries.erase(model.entries.begin() + static_cast<std::ptrdiff_t>(at));
      }
      ASSERT_EQ(order.size(), model.entries.size());
    }
  }
  EXPECT_GT(moves, 10'000U);
}

// Values that stay while thousands come and go keep their order and their marks.
TEST(OrderIndex, ThoseThatStayAreFoundAmongAnyNumberThatGo) {
  OrderIndex order;
  std::vector<std::uint32_t> positions(3);
  const auto moved = [&](std::uint32_t value, std::uint32_t to) {
    ASSERT_LT(value, 3U);
    positions[value] = to;
  };
  for (const std::uint32_t value : {0U, 1U, 2U}) {
    positions[value] = order.append(value, moved);
  }
  order.set(kFirst, positions[1], true);
  order.set(kSecond, positions[2], true);
  for (int i = 0; i < 100'000; ++i) {
    order.remove(order.append(9, moved));
  }
  EXPECT_EQ(order.first(kFirst), 1U);
  EXPECT_EQ(order.last(kFirst), 1U);
  EXPECT_EQ(order.after(kSecond, positions[0]), 2U);
  EXPECT_LT(positions[2], 3U);
}

}  // namespace
}  // namespace spillway
