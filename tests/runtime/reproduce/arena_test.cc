// Where tensors lie in a framework's own memory, and what the driver sees of them, worked out by
// hand.
#include "runtime/reproduce/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/validate.h"

namespace spillway::reproduce {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr Bytes kPage = 512;

Kernel kernel(std::vector<TensorId> reads, std::vector<TensorId> writes) {
  Kernel made;
  made.name = "k";
  made.duration_ns = 10;
  made.reads = std::move(reads);
  made.writes = std::move(writes);
  return made;
}

// A weight on page 0; A on page 1; B and E, half a page each, on page 2; C on page 1, where A is
// dead by then.
enum : TensorId { W, A, B, C, E };
Trace program() {
  Trace trace;
  trace.model = "hand";
  trace.tensors = {{512, true, false},
                   {500, false, false},
                   {256, false, false},
                   {512, false, false},
                   {200, false, false}};
  trace.kernels = {kernel({W}, {A}), kernel({A}, {B, E}), kernel({B, E}, {C}), kernel({C, W}, {W})};
  return trace;
}

TEST(Arena, TensorsThatNeverLiveAtOnceShareTheirPages) {
  const Arena arena = lay_out(program(), kPage);
  EXPECT_THAT(arena.pieces,
              ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 3), Pair(1, 2), Pair(2, 3)));
  EXPECT_THAT(arena.shared, ElementsAre(false, false, true));
  ASSERT_EQ(arena.trace.tensors.size(), 3U);
  for (const Tensor& piece : arena.trace.tensors) {
    EXPECT_EQ(piece.bytes, kPage);
    EXPECT_TRUE(piece.persistent);
  }
  EXPECT_TRUE(validate_trace(arena.trace, "arena"));
}

TEST(Arena, KernelsUseThePagesOfTheirOperands) {
  const Arena arena = lay_out(program(), kPage);
  ASSERT_EQ(arena.trace.kernels.size(), 4U);
  EXPECT_THAT(arena.trace.kernels[0].reads, ElementsAre(0));
  EXPECT_THAT(arena.trace.kernels[0].writes, ElementsAre(1));
  EXPECT_THAT(arena.trace.kernels[1].writes, ElementsAre(2));  // B and E: once
  EXPECT_THAT(arena.trace.kernels[2].reads, ElementsAre(2));
  EXPECT_THAT(arena.trace.kernels[2].writes, ElementsAre(1));
  EXPECT_EQ(arena.trace.kernels[2].duration_ns, 10);
}

// A tensor of three pages from the middle of one is three pieces: a page that it shares, and a run
// of those that are its own.
TEST(Arena, RunsOfPagesAreOnePiece) {
  Trace trace = program();
  trace.tensors[A].bytes = 256;
  trace.tensors[C].bytes = 1024 + 256;
  // Page 1: A, then B; page 2 begins with E. C finds no hole and begins behind E.
  const Arena arena = lay_out(trace, kPage);
  EXPECT_THAT(arena.pieces[A], Pair(1, 2));
  EXPECT_THAT(arena.pieces[B], Pair(1, 2));
  EXPECT_THAT(arena.pieces[E], Pair(2, 3));
  EXPECT_THAT(arena.pieces[C], Pair(2, 4));
  ASSERT_EQ(arena.trace.tensors.size(), 4U);
  EXPECT_EQ(arena.trace.tensors[3].bytes, 2 * kPage);
  EXPECT_THAT(arena.shared, ElementsAre(false, true, true, false));
}

// The smallest hole that is large enough, and what is left of it stays a hole.
TEST(Arena, TheSmallestHoleIsTaken) {
  Trace trace;
  trace.model = "holes";
  enum : TensorId { kLarge, kBetween, kSmall, kEnd, kNew, kNext };
  trace.tensors = {{4 * kPage, false, false}, {kPage, false, false},     {2 * kPage, false, false},
                   {kPage, false, false},     {2 * kPage, false, false}, {kPage, false, false}};
  trace.kernels = {kernel({}, {kLarge, kBetween, kSmall, kEnd}), kernel({}, {kNew}),
                   kernel({kNew}, {kNext}), kernel({kBetween, kEnd, kNext}, {})};
  const Arena arena = lay_out(trace, kPage);
  EXPECT_EQ(arena.pieces[kNew], arena.pieces[kSmall]);
  EXPECT_EQ(arena.pieces[kNext].first, arena.pieces[kLarge].first);
}

TEST(Arena, APlanIsForWhatIsTheTensorsAlone) {
  const Arena arena = lay_out(program(), kPage);
  Plan plan;
  plan.before = {{{PlanStep::kAlloc, A}},
                 {{PlanStep::kFree, W}, {PlanStep::kPreEvict, A, Tier::kHost}},
                 {{PlanStep::kPreEvict, B, Tier::kHost}},
                 {{PlanStep::kPrefetch, B}}};
  const Plan made = plan_of_arena(plan, arena);
  ASSERT_EQ(made.before.size(), 4U);
  ASSERT_EQ(made.before[0].size(), 1U);
  EXPECT_EQ(made.before[0][0].step, PlanStep::kAlloc);
  EXPECT_EQ(made.before[0][0].tensor, 1U);
  ASSERT_EQ(made.before[1].size(), 1U);  // nothing is freed
  EXPECT_EQ(made.before[1][0].step, PlanStep::kPreEvict);
  EXPECT_EQ(made.before[1][0].to, Tier::kHost);
  EXPECT_TRUE(made.before[2].empty());  // E is there too
  ASSERT_EQ(made.before[3].size(), 1U);
  EXPECT_EQ(made.before[3][0].tensor, 2U);
}

}  // namespace
}  // namespace spillway::reproduce
