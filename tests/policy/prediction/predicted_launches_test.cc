// The window of predictions over programs that repeat, or do not.
#include "policy/prediction/predicted_launches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "policy/correlation/execution_table.h"

namespace spillway {
namespace {

using testing::ElementsAre;

// What a program launches, and the tables that watch it.
struct Watcher {
  explicit Watcher(std::uint32_t degree) : window(table, degree) {}
  bool launch(ExecutionId next) {
    if (current != kNoExecution) {
      table.update(history, current, next);
      history.push(current);
    }
    current = next;
    return window.advance(next, history);
  }
  std::vector<ExecutionId> predictions() const {
    std::vector<ExecutionId> ids;
    for (std::uint32_t d = 1; d <= window.count(); ++d) ids.push_back(window.at(d));
    return ids;
  }

  ExecutionTable table;
  ExecutionHistory history;
  ExecutionId current = kNoExecution;
  PredictedLaunches window;
};

TEST(PredictedLaunches, SecondIterationIsPredictedOverTheSeam) {
  Watcher watcher(3);
  for (const ExecutionId id : {0U, 1U, 2U, 1U, 3U}) {
    EXPECT_FALSE(watcher.launch(id));
    EXPECT_EQ(watcher.window.current(), id);
  }
  EXPECT_FALSE(watcher.launch(0));
  // 1 follows 0; its history (2, 1, 3, 0) is new: the best record of 1 is the one after 0.
  EXPECT_THAT(watcher.predictions(), ElementsAre(1, 2, 1));
  EXPECT_TRUE(watcher.launch(1));
  EXPECT_THAT(watcher.predictions(), ElementsAre(2, 1, 3));
  EXPECT_EQ(watcher.window.fresh(), 1U);
  for (const ExecutionId id : {2U, 1U, 3U, 0U, 1U}) EXPECT_TRUE(watcher.launch(id));
}

TEST(PredictedLaunches, UnexpectedLaunchPredictsAnew) {
  Watcher watcher(2);
  for (int i = 0; i < 2; ++i) {
    for (const ExecutionId id : {0U, 1U, 2U, 3U, 4U}) watcher.launch(id);
  }
  watcher.launch(0);
  EXPECT_THAT(watcher.predictions(), ElementsAre(1, 2));
  EXPECT_FALSE(watcher.launch(3));
  EXPECT_THAT(watcher.predictions(), ElementsAre(4, 0));
  EXPECT_EQ(watcher.window.fresh(), 2U);
  EXPECT_FALSE(watcher.launch(77));
  EXPECT_THAT(watcher.predictions(), ElementsAre());
}

// Three predecessors tell apart what one would not: a kernel that repeats inside an iteration.
TEST(PredictedLaunches, AnyRepeatedIterationIsPredictedFromTheThirdOn) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    // Distinct ids in pairs (k, shared): every shared kernel has predecessors that tell it apart.
    std::vector<ExecutionId> iteration;
    for (ExecutionId k = 0; k < 40; ++k) {
      iteration.push_back(100 + k);
      if (rng.chance(0.5)) iteration.push_back(static_cast<ExecutionId>(rng.below(3)));
    }
    Watcher watcher(8);
    for (int i = 0; i < 3; ++i) {
      for (const ExecutionId id : iteration) {
        const bool as_predicted = watcher.launch(id);
        if (i == 2) {
          EXPECT_TRUE(as_predicted);
          EXPECT_EQ(watcher.window.count(), 8U);
        }
      }
    }
  }
}

TEST(PredictedLaunches, DegreeZeroSeesOnlyTheCurrentKernel) {
  Watcher watcher(0);
  for (const ExecutionId id : {0U, 1U, 0U, 1U}) {
    EXPECT_FALSE(watcher.launch(id));
    EXPECT_EQ(watcher.window.count(), 0U);
    EXPECT_EQ(watcher.window.at(0), id);
  }
}

}  // namespace
}  // namespace spillway
