// Eager prefetching of G10 (figure 8), worked by hand in pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "analysis/vitality.h"
#include "policy/page_machine.h"
#include "policy/planning/g10_planner.h"

namespace spillway {
namespace {

using test::in_pages;
using test::kPages;
using test::page_machine;
using testing::ElementsAre;

// Periods of tensors 0, 1, ... of the given pages; the planned ones refer to them by number.
struct Eager {
  Trace trace;
  Vitality vitality;
  EvictionSchedule schedule;
};
Eager eager(const std::vector<Bytes>& tensor_bytes, std::vector<Bytes> pressure_pages) {
  Eager made;
  for (const Bytes bytes : tensor_bytes) {
    const auto id = static_cast<TensorId>(made.trace.tensors.size());
    made.trace.tensors.push_back({bytes, false, false});
    made.vitality.periods.push_back({.tensor = id});
  }
  for (Bytes& pages : pressure_pages) pages *= kPages;
  made.schedule.pressure_bytes = std::move(pressure_pages);
  return made;
}
PlannedPeriod planned(std::size_t period, std::size_t evicted, std::size_t latest_fetch) {
  return {.period = period,
          .to = Tier::kHost,
          .evicted = evicted,
          .latest_fetch = latest_fetch,
          .fetch = latest_fetch};
}

// Capacity 50, 10 pages, latest safe time slot 6: 5 (40 + 10), 4 and 3 have room, 2 (45) has not.
TEST(EagerPrefetch, Figure8MovesForwardUntilMemoryIsFull) {
  Eager made = eager({10 * kPages}, {30, 30, 45, 30, 35, 40, 45, 30});
  made.schedule.periods = {planned(0, 0, 6)};
  schedule_eager_prefetches(made.trace, made.vitality, page_machine(50), made.schedule);
  EXPECT_EQ(made.schedule.periods[0].fetch, 3U);
  EXPECT_EQ(made.schedule.periods[0].latest_fetch, 6U);
  EXPECT_THAT(in_pages(made.schedule.pressure_bytes), ElementsAre(30, 30, 45, 40, 45, 50, 45, 30));
}

TEST(EagerPrefetch, StaysWhereMemoryIsFull) {
  Eager made = eager({10 * kPages}, {30, 30, 30, 30, 30, 41, 45, 30});
  made.schedule.periods = {planned(0, 0, 6)};
  schedule_eager_prefetches(made.trace, made.vitality, page_machine(50), made.schedule);
  EXPECT_EQ(made.schedule.periods[0].fetch, 6U);
  EXPECT_THAT(in_pages(made.schedule.pressure_bytes), ElementsAre(30, 30, 30, 30, 30, 41, 45, 30));
}

TEST(EagerPrefetch, NeverBeforeTheEvictionHasEnded) {
  Eager made = eager({10 * kPages}, {0, 0, 0, 0, 0, 0, 0, 0});
  made.schedule.periods = {planned(0, 2, 6)};
  schedule_eager_prefetches(made.trace, made.vitality, page_machine(50), made.schedule);
  EXPECT_EQ(made.schedule.periods[0].fetch, 3U);
  EXPECT_THAT(in_pages(made.schedule.pressure_bytes), ElementsAre(0, 0, 0, 10, 10, 10, 0, 0));
}

// Room for one of two. The one that is needed first gets it, whichever was evicted first; the other
// moves over slots 7 and 6 and stops at 5.
TEST(EagerPrefetch, InTheOrderOfTheLatestSafeTimes) {
  Eager made = eager({10 * kPages, 10 * kPages}, {40, 40, 40, 40, 40, 40, 40, 40, 40});
  made.schedule.periods = {planned(0, 0, 8), planned(1, 0, 6)};
  schedule_eager_prefetches(made.trace, made.vitality, page_machine(50), made.schedule);
  EXPECT_EQ(made.schedule.periods[0].period, 1U);
  EXPECT_EQ(made.schedule.periods[0].fetch, 1U);
  EXPECT_EQ(made.schedule.periods[1].period, 0U);
  EXPECT_EQ(made.schedule.periods[1].fetch, 6U);
}

TEST(EagerPrefetch, AroundTheRing) {
  Eager made = eager({10 * kPages}, {40, 41, 40, 40});
  made.schedule.periods = {planned(0, 2, 7)};  // slots 3, 4 = 0, 5 = 1, 6 = 2
  schedule_eager_prefetches(made.trace, made.vitality, page_machine(50), made.schedule);
  EXPECT_EQ(made.schedule.periods[0].fetch, 6U);
  EXPECT_THAT(in_pages(made.schedule.pressure_bytes), ElementsAre(40, 41, 50, 40));
}

// A tensor of one byte more than 9 pages takes 10, and, with frames of 4 pages, 12.
TEST(EagerPrefetch, CountsWholeFrames) {
  Eager made = eager({9 * kPages + 1}, {40, 40, 41, 40});
  made.schedule.periods = {planned(0, 0, 4)};
  schedule_eager_prefetches(made.trace, made.vitality, page_machine(50), made.schedule);
  EXPECT_EQ(made.schedule.periods[0].fetch, 3U);

  Eager large = eager({9 * kPages + 1}, {36, 36, 36, 40});
  large.schedule.periods = {planned(0, 0, 4)};
  Machine machine = page_machine(50);
  machine.device.frame_bytes = 4 * kPages;
  schedule_eager_prefetches(large.trace, large.vitality, machine, large.schedule);
  EXPECT_EQ(large.schedule.periods[0].fetch, 4U);
}

}  // namespace
}  // namespace spillway
