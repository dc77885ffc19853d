// When a plan is given up: it stops its program more often than paging did.
#include "policy/planning/plan_worth.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr int kLaunches = 100;

// One iteration with so many stops. True if the plan was found wanting in it.
bool iteration(PlanWorth& worth, int stops) {
  bool worse = false;
  for (int i = 0; i < kLaunches; ++i) {
    worse |= worth.launched();
    if (i < stops) worth.stopped();
  }
  return worse;
}

TEST(PlanWorth, APlanThatStopsLessOftenIsKept) {
  PlanWorth worth;
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(iteration(worth, 30));
  worth.planned(kLaunches);
  EXPECT_FALSE(iteration(worth, 90));  // nothing is where it is expected yet
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(iteration(worth, 25));
}

TEST(PlanWorth, OneThatStopsMoreOftenIsNot) {
  PlanWorth worth;
  for (int i = 0; i < 2; ++i) iteration(worth, 30);
  worth.planned(kLaunches);
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(iteration(worth, 25));
  bool worse = false;
  for (int i = 0; i < 4; ++i) worse |= iteration(worth, 40);
  EXPECT_TRUE(worse);
  worth.dropped();
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(iteration(worth, 50)) << "there is no plan";
  worth.planned(kLaunches);
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(iteration(worth, 40)) << "paging has become worse";
}

// What came before anything had to leave says nothing of paging.
TEST(PlanWorth, WhatFittedDoesNotCount) {
  PlanWorth worth;
  for (int i = 0; i < 50; ++i) iteration(worth, 0);
  iteration(worth, 30);
  worth.planned(kLaunches);
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(iteration(worth, 25));
}

TEST(PlanWorth, WithoutAnythingToCompareItIsKept) {
  PlanWorth worth;
  worth.planned(kLaunches);
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(iteration(worth, 50));
}

}  // namespace
}  // namespace spillway
