// The execution ID correlation table: records, their order, predictions.
#include "policy/correlation/execution_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace spillway {
namespace {

using testing::ElementsAre;

// Figure 6 of the paper, entry by entry.
ExecutionTable figure_6() {
  ExecutionTable table;
  table.update({7, 9, 92}, 0, 75);
  table.update({4, 3, 939}, 1, 2);
  table.update({34, 52, 22}, 1, 99);
  table.update({89, 53, 24}, 1, 10);
  table.update({33, 588, 34}, 2, 1);
  table.update({3, 53, 4}, 2, 8);
  return table;
}

TEST(ExecutionTable, Figure6) {
  const ExecutionTable table = figure_6();
  EXPECT_EQ(table.predict({7, 9, 92}, 0), 75U);
  EXPECT_EQ(table.predict({89, 53, 24}, 1), 10U);
  EXPECT_EQ(table.predict({34, 52, 22}, 1), 99U);
  EXPECT_EQ(table.predict({4, 3, 939}, 1), 2U);
  EXPECT_EQ(table.predict({3, 53, 4}, 2), 8U);
  EXPECT_EQ(table.predict({33, 588, 34}, 2), 1U);
  using Record = ExecutionTable::Record;
  EXPECT_THAT(table.records(1), ElementsAre(Record{{89, 53, 24}, 10}, Record{{34, 52, 22}, 99},
                                            Record{{4, 3, 939}, 2}));
}

TEST(ExecutionTable, UpdateMovesTheRecordToTheFront) {
  ExecutionTable table = figure_6();
  table.update({4, 3, 939}, 1, 2);
  using Record = ExecutionTable::Record;
  EXPECT_THAT(table.records(1), ElementsAre(Record{{4, 3, 939}, 2}, Record{{89, 53, 24}, 10},
                                            Record{{34, 52, 22}, 99}));
}

TEST(ExecutionTable, SameHistoryTwoSuccessorsPredictsTheLatest) {
  ExecutionTable table;
  table.update({1, 2, 3}, 4, 5);
  table.update({1, 2, 3}, 4, 6);
  EXPECT_EQ(table.predict({1, 2, 3}, 4), 6U);
  table.update({1, 2, 3}, 4, 5);
  EXPECT_EQ(table.predict({1, 2, 3}, 4), 5U);
  EXPECT_EQ(table.records(4).size(), 2U);
}

TEST(ExecutionTable, UnknownHistoryFallsBackOnTheLongestSuffix) {
  ExecutionTable table;
  table.update({1, 2, 3}, 9, 10);
  table.update({8, 2, 3}, 9, 11);
  table.update({8, 8, 3}, 9, 12);
  table.update({8, 8, 8}, 9, 13);
  EXPECT_EQ(table.predict({1, 2, 3}, 9), 10U);  // exact, though the least recent
  EXPECT_EQ(table.predict({7, 2, 3}, 9), 11U);  // two agree in prev2 and prev1: the later one
  EXPECT_EQ(table.predict({1, 7, 3}, 9), 12U);  // three agree in prev1 only
  EXPECT_EQ(table.predict({1, 2, 7}, 9), 13U);  // none agrees: prev3 and prev2 do not count
}

TEST(ExecutionTable, NothingRecordedPredictsNothing) {
  ExecutionTable table;
  EXPECT_EQ(table.predict({}, 0), std::nullopt);
  table.update({}, 5, 6);
  EXPECT_EQ(table.predict({}, 4), std::nullopt);
  EXPECT_EQ(table.predict({}, 6), std::nullopt);
  EXPECT_TRUE(table.records(1000).empty());
}

TEST(ExecutionTable, RecordsStayBounded) {
  ExecutionTable table;
  for (ExecutionId i = 0; i < 10 * ExecutionTable::kMaxRecords; ++i) table.update({0, 0, i}, 1, i);
  EXPECT_EQ(table.records(1).size(), ExecutionTable::kMaxRecords);
  EXPECT_EQ(table.records(1).front().next, 10 * ExecutionTable::kMaxRecords - 1);
  EXPECT_EQ(table.records(1).back().next, 9 * ExecutionTable::kMaxRecords);
}

}  // namespace
}  // namespace spillway
