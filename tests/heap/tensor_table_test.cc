// Tensors by address.
#include "heap/tensor_table.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(TensorTable, TheDeadAreKnownUntilThereAreTooMany) {
  TensorTable table;
  table.make_at(512).bytes = 100;
  EXPECT_EQ(table.living_at(512)->bytes, 100U);
  table.at(512)->bytes = 0;
  EXPECT_EQ(table.living_at(512), nullptr);
  EXPECT_NE(table.at(512), nullptr);
  constexpr std::uint64_t kMany = 10'000;
  for (std::uint64_t i = 2; i <= kMany; ++i) {
    table.make_at(512 * i).bytes = i;
  }
  EXPECT_EQ(table.at(512), nullptr);
  for (std::uint64_t i = 2; i <= kMany; ++i) {
    ASSERT_EQ(table.living_at(512 * i)->bytes, i);
  }
}

}  // namespace
}  // namespace spillway
