// A set of small numbers against std::set, over one, two and three levels.
#include "base/bit_tree.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"

namespace spillway {
namespace {

std::uint32_t after(const std::set<std::uint32_t>& model, std::uint32_t from) {
  const auto found = model.lower_bound(from);
  return found == model.end() ? BitTree::kNone : *found;
}

TEST(BitTree, IsEmptyBeforeItGrows) {
  BitTree tree;
  EXPECT_FALSE(tree.has(0));
  EXPECT_EQ(tree.at_or_after(0), BitTree::kNone);
  EXPECT_EQ(tree.last(), BitTree::kNone);
  tree.grow(1);
  EXPECT_EQ(tree.at_or_after(0), BitTree::kNone);
  tree.add(0);
  EXPECT_EQ(tree.at_or_after(0), 0U);
  EXPECT_EQ(tree.at_or_after(1), BitTree::kNone);
}

TEST(BitTree, GrowingKeepsWhatIsSetOverSeveralLevelsAtOnce) {
  for (const std::uint32_t size : {64U, 65U, 4096U, 4097U, 262'144U, 262'145U, 300'000U}) {
    BitTree tree;
    tree.grow(3);
    tree.add(2);
    tree.grow(size);
    tree.add(size - 1);
    EXPECT_TRUE(tree.has(2));
    EXPECT_FALSE(tree.has(size));
    EXPECT_EQ(tree.at_or_after(0), 2U);
    EXPECT_EQ(tree.at_or_after(3), size - 1);
    EXPECT_EQ(tree.last(), size - 1);
    tree.grow(1);  // never shrinks
    EXPECT_TRUE(tree.has(size - 1));
    tree.remove(size - 1);
    EXPECT_EQ(tree.last(), 2U);
    tree.clear();
    EXPECT_EQ(tree.last(), BitTree::kNone);
    EXPECT_EQ(tree.at_or_after(0), BitTree::kNone);
  }
}

// Dense and sparse numbers, growing step by step while they are in use.
TEST(BitTree, DoesAsASetDoes) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    BitTree tree;
    std::set<std::uint32_t> model;
    std::uint32_t size = 1;
    tree.grow(size);
    const double density = rng.uniform();
    for (int step = 0; step < 4000; ++step) {
      if (rng.chance(0.01)) {
        size += static_cast<std::uint32_t>(rng.below(rng.chance(0.1) ? 30'000 : 80));
        tree.grow(size);
      }
      const auto number = static_cast<std::uint32_t>(rng.below(size));
      if (rng.chance(density)) {
        tree.add(number);
        model.insert(number);
      } else {
        tree.remove(number);
        model.erase(number);
      }
      const auto from = static_cast<std::uint32_t>(rng.below(size + 70));
      ASSERT_EQ(tree.has(from), model.count(from) == 1) << "seed " << seed << ", step " << step;
      ASSERT_EQ(tree.at_or_after(from), after(model, from)) << "seed " << seed;
      ASSERT_EQ(tree.last(), model.empty() ? BitTree::kNone : *model.rbegin()) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace spillway
