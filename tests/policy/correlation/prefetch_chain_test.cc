// The chain of prefetches: the hand-worked cases of figure 7, pauses, faults, odd tables.
#include "policy/correlation/prefetch_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "policy/correlation/block_table.h"
#include "policy/correlation_world.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Letters of figure 7.
constexpr BlockId kA = 0, kB = 1, kC = 2, kD = 3, kE = 4, kF = 5, kG = 6, kI = 8, kK = 10, kN = 13,
                  kP = 15, kQ = 16, kT = 19, kU = 20;

// The two tables of figure 7, with its two successors an entry, and execution 1 after 0.
void fill_figure_7(CorrelationWorld& world) {
  BlockTable& zero = world.tables.of(0);
  zero.fault(kNoBlock, kA);
  zero.fault(kA, kQ);  // makes q the end; the two successors of a then push it out
  zero.record(kA, kP);
  zero.record(kA, kB);
  zero.record(kB, kQ);
  zero.record(kB, kE);
  zero.record(kC, kD);
  BlockTable& one = world.tables.of(1);
  one.fault(kNoBlock, kK);
  one.fault(kK, kU);
  one.record(kK, kN);
  one.record(kK, kG);
  one.record(kF, kU);
  one.record(kF, kE);
  one.record(kG, kI);
  one.record(kG, kT);
  ASSERT_THAT(zero.successors(kA), ElementsAre(kB, kP));
  ASSERT_THAT(zero.successors(kB), ElementsAre(kE, kQ));
  ASSERT_EQ(zero.start(), kA);
  ASSERT_EQ(zero.end(), kQ);
  ASSERT_THAT(one.successors(kK), ElementsAre(kG, kN));
  ASSERT_THAT(one.successors(kG), ElementsAre(kT, kI));
  ASSERT_EQ(one.start(), kK);
  ASSERT_EQ(one.end(), kU);
  world.executions.update({}, 0, 1);
}

TEST(PrefetchChain, Figure7FaultOnB) {
  CorrelationWorld world(1, {.num_rows = 2048, .assoc = 2, .num_succs = 2});
  fill_figure_7(world);
  world.launch(0);
  world.chain.restart(kB);
  EXPECT_THAT(world.commands(), ElementsAre(PrefetchCommand{kE, 0, 0}, PrefetchCommand{kQ, 0, 0},
                                            PrefetchCommand{kK, 1, 1}, PrefetchCommand{kG, 1, 1},
                                            PrefetchCommand{kN, 1, 1}, PrefetchCommand{kT, 1, 1},
                                            PrefetchCommand{kI, 1, 1}));
}

TEST(PrefetchChain, Figure7FaultOnAGoesBreadthFirst) {
  CorrelationWorld world(0, {.num_rows = 2048, .assoc = 2, .num_succs = 2});
  fill_figure_7(world);
  world.launch(0);
  world.chain.restart(kA);
  EXPECT_THAT(world.blocks(), ElementsAre(kB, kP, kE, kQ));
}

TEST(PrefetchChain, SuccessorsOfTheEndAreNotFollowed) {
  CorrelationWorld world(0);
  world.run(0, {1, 2, 3});
  world.tables.of(0).record(3, 4);
  world.launch(0);
  world.chain.restart(1);
  EXPECT_THAT(world.blocks(), ElementsAre(2, 3));
  world.chain.restart(3);
  EXPECT_THAT(world.blocks(), IsEmpty());
}

TEST(PrefetchChain, AShortcutToTheEndLosesNothing) {
  CorrelationWorld world(0);
  world.run(0, {1, 2, 3, 4});
  world.run(0, {1, 4});  // the others were resident
  world.launch(0);
  world.chain.restart(1);
  EXPECT_THAT(world.blocks(), ElementsAre(4, 2, 3));
}

TEST(PrefetchChain, EachBlockOncePerKernelAndNoLoop) {
  CorrelationWorld world(1);
  world.run(0, {1, 2, 3, 1, 2, 3});
  world.run(1, {3, 1});
  world.run(0, {});
  world.chain.restart(1);
  // The shared blocks come again for the next kernel.
  EXPECT_THAT(world.commands(), ElementsAre(PrefetchCommand{2, 0, 0}, PrefetchCommand{3, 0, 0},
                                            PrefetchCommand{3, 1, 1}, PrefetchCommand{1, 1, 1}));
}

TEST(PrefetchChain, PausesAfterNKernelsAndResumesWhenTheCurrentOneFinishes) {
  CorrelationWorld world(2);
  run_iteration(world, 6);
  world.run(0, {0});
  EXPECT_THAT(world.commands(), ElementsAre(PrefetchCommand{1, 0, 0}, PrefetchCommand{10, 1, 1},
                                            PrefetchCommand{11, 1, 1}, PrefetchCommand{20, 2, 2},
                                            PrefetchCommand{21, 2, 2}));
  EXPECT_EQ(world.chain.next(), std::nullopt);
  world.launch(1);
  EXPECT_THAT(world.commands(), ElementsAre(PrefetchCommand{30, 3, 2}, PrefetchCommand{31, 3, 2}));
  world.launch(2);
  world.launch(3);
  EXPECT_THAT(world.commands(), ElementsAre(PrefetchCommand{40, 4, 1}, PrefetchCommand{41, 4, 1},
                                            PrefetchCommand{50, 5, 2}, PrefetchCommand{51, 5, 2}));
}

TEST(PrefetchChain, APartInProgressComesNearerWithEachLaunch) {
  CorrelationWorld world(2);
  run_iteration(world, 6);
  world.run(0, {0});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(world.chain.next());  // 1, 10, 11, 20
  world.launch(1);
  EXPECT_EQ(world.chain.next(), (PrefetchCommand{21, 2, 1}));
  EXPECT_EQ(world.chain.next(), (PrefetchCommand{30, 3, 2}));
}

TEST(PrefetchChain, AFaultRestartsBehindIt) {
  CorrelationWorld world(2);
  run_iteration(world, 6);
  world.run(0, {0});
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(world.chain.next());
  world.launch(1);
  world.fault(10);
  EXPECT_EQ(world.chain.next(), (PrefetchCommand{11, 1, 0}));
  EXPECT_EQ(world.chain.next(), (PrefetchCommand{20, 2, 1}));
}

TEST(PrefetchChain, NothingBeforeTheFirstFault) {
  CorrelationWorld world(2);
  world.chain.restart(1);  // no kernel has been launched
  EXPECT_EQ(world.chain.next(), std::nullopt);
  world.executions.update({}, 0, 1);
  world.tables.of(1).fault(kNoBlock, 7);
  world.launch(0);
  EXPECT_EQ(world.chain.next(), std::nullopt);
}

TEST(PrefetchChain, EndsWhereNothingCanBePredictedUntilAFault) {
  CorrelationWorld world(4);
  run_iteration(world, 3);
  world.run(0, {0});
  world.launch(1);
  EXPECT_THAT(world.blocks(), ElementsAre(10, 11, 20, 21, 0, 1, 10, 11, 20, 21));
  CorrelationWorld fresh(4);
  run_iteration(fresh, 3);  // what follows kernel 2 is not known yet
  EXPECT_THAT(fresh.blocks(), IsEmpty());
  fresh.run(9, {90});
  EXPECT_THAT(fresh.blocks(), IsEmpty());
  fresh.launch(0);  // known again, but the chain has ended
  EXPECT_THAT(fresh.blocks(), IsEmpty());
  fresh.fault(0);
  EXPECT_EQ(fresh.chain.next(), (PrefetchCommand{1, 0, 0}));
}

TEST(PrefetchChain, AnUnexpectedKernelIsFollowedFromItsStart) {
  CorrelationWorld world(1);
  run_iteration(world, 6);
  world.run(0, {0});
  EXPECT_THAT(world.blocks(), ElementsAre(1, 10, 11));
  world.launch(3);
  EXPECT_THAT(world.commands(), ElementsAre(PrefetchCommand{30, 3, 0}, PrefetchCommand{31, 3, 0},
                                            PrefetchCommand{40, 4, 1}, PrefetchCommand{41, 4, 1}));
}

TEST(PrefetchChain, AKernelWithoutFaultsIsPassedOver) {
  CorrelationWorld world(2);
  world.run(0, {1, 2});
  world.run(1, {});
  world.run(2, {3, 4});
  world.run(0, {1});
  EXPECT_THAT(world.commands(), ElementsAre(PrefetchCommand{2, 0, 0}, PrefetchCommand{3, 2, 2},
                                            PrefetchCommand{4, 2, 2}));
}

// With memory for everything prefetched, the second execution does not fault at all, even though
// each kernel touches 3,000 blocks in three tensors.
TEST(PrefetchChain, AFewThousandBlocksAKernelAreLearnedInOneExecution) {
  CorrelationWorld world(3);
  std::vector<std::vector<BlockId>> kernels(4);
  for (BlockId k = 0; k < 4; ++k) {
    for (BlockId block = 0; block < 1000; ++block) {
      for (BlockId tensor = k; tensor < k + 3; ++tensor) {
        kernels[k].push_back(tensor * 1000 + block);
      }
    }
  }
  for (ExecutionId k = 0; k < 4; ++k) world.run(k, kernels[k]);
  std::set<BlockId> resident;
  std::uint32_t faults = 0;
  for (ExecutionId k = 0; k < 4; ++k) {
    world.launch(k);
    for (const BlockId block : world.blocks()) resident.insert(block);
    for (const BlockId block : kernels[k]) {
      if (!resident.insert(block).second) continue;
      ++faults;
      world.fault(block);
      for (const BlockId ahead : world.blocks()) resident.insert(ahead);
    }
  }
  EXPECT_EQ(faults, 0U);
}

// More blocks than the 256 entries: every part ends, and only the blocks of rows that overflow
// (footprint - 256 of them, three blocks each) can fault.
TEST(PrefetchChain, DegradesWhenAKernelOverflowsItsTable) {
  for (const BlockId footprint : {200U, 256U, 300U, 380U, 600U}) {
    SCOPED_TRACE(footprint);
    CorrelationWorld world(1, {.num_rows = 128, .assoc = 2, .num_succs = 4});
    std::uint32_t faults = 0;
    for (int execution = 0; execution < 12; ++execution) {
      faults = 0;
      std::set<BlockId> resident;  // nothing survives from one execution to the next
      world.launch(0);
      for (const BlockId block : world.blocks()) resident.insert(block);
      for (BlockId block = 0; block < footprint; ++block) {
        if (!resident.insert(block).second) continue;
        ++faults;
        world.fault(block);
        const std::vector<BlockId> ahead = world.blocks();
        EXPECT_LE(ahead.size(), 2 * footprint);
        resident.insert(ahead.begin(), ahead.end());
      }
    }
    EXPECT_LE(faults, footprint <= 256 ? 0 : std::min(footprint, 3 * (footprint - 256)));
  }
}

TEST(PrefetchChain, EndsOnAnyTables) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto degree = static_cast<std::uint32_t>(rng.below(5));
    CorrelationWorld world(degree, {.num_rows = 1 + static_cast<std::uint32_t>(rng.below(20)),
                                    .assoc = 1 + static_cast<std::uint32_t>(rng.below(3)),
                                    .num_succs = 1 + static_cast<std::uint32_t>(rng.below(4))});
    for (int step = 0; step < 300; ++step) {
      world.launch(static_cast<ExecutionId>(rng.below(6)));
      for (std::uint64_t faults = rng.below(12); faults > 0; --faults) {
        world.fault(static_cast<BlockId>(rng.below(60)));
      }
      std::set<std::pair<std::uint32_t, BlockId>> given;
      while (const std::optional<PrefetchCommand> command = world.chain.next()) {
        ASSERT_TRUE(given.emplace(command->distance, command->block).second);
        ASSERT_LE(command->distance, degree);
        ASSERT_EQ(command->for_execution, world.window.at(command->distance));
        if (rng.chance(0.02)) break;  // the queue is full: the rest comes after the next launch
      }
    }
  }
}

}  // namespace
}  // namespace spillway
