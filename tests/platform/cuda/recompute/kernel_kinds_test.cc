// What is known of kernels whose results could be recomputed.
#include "platform/cuda/recompute/kernel_kinds.h"

#include <gtest/gtest.h>

namespace spillway::cuda {
namespace {

TEST(KernelKinds, AKindOfNoUseIsLeftAloneButForOneInAWhile) {
  KernelKind kind;
  EXPECT_TRUE(kind.is_worth_it());
  kind.gone = 16;
  EXPECT_FALSE(kind.is_worth_it());
  kind.useful = 1;
  EXPECT_TRUE(kind.is_worth_it());
  kind.gone = 24;
  EXPECT_FALSE(kind.is_worth_it());
  kind.left_alone = 63;
  EXPECT_TRUE(kind.is_worth_it());
}

TEST(KernelKinds, TrialsAreFewBesideWhatComesOfThem) {
  KernelKinds kinds;
  for (int i = 0; i < 256; ++i) {
    EXPECT_TRUE(kinds.may_try());
    kinds.tried();
  }
  EXPECT_FALSE(kinds.may_try());
  for (int i = 0; i < 4; ++i) {
    kinds.gave_up();
  }
  EXPECT_TRUE(kinds.may_try());
}

TEST(KernelKinds, AnUnknownKindIsAsNewAndThereAreNeverTooMany) {
  KernelKinds kinds;
  kinds.learn(1).writes = KernelKind::Writes::kAll;
  EXPECT_EQ(kinds.of(1).writes, KernelKind::Writes::kAll);
  EXPECT_EQ(kinds.of(2).writes, KernelKind::Writes::kUnknown);
  for (std::uint64_t kind = 2; kind < 5000; ++kind) {
    (void)kinds.learn(kind);
  }
  EXPECT_EQ(kinds.of(1).writes, KernelKind::Writes::kUnknown);
}

}  // namespace
}  // namespace spillway::cuda
