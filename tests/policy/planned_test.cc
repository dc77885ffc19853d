// Carrying out a plan on the engine: what is wished for when, and who makes way where the program
// strays from the plan.
#include "policy/planned.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "policy/page_machine.h"
#include "policy/untimed_platform.h"

namespace spillway {
namespace {

using test::UntimedPlatform;
using testing::ElementsAre;

// Tensors of one block each, allocated in order.
struct World {
  World(const Trace& trace, Plan plan, std::uint32_t device_blocks)
      : policy("planned", trace, std::move(plan), Tier::kHost),
        platform(options(device_blocks), policy) {
    for (TensorId id = 0; id < trace.tensors.size(); ++id) {
      ids.push_back(platform.engine().allocate(kBlockBytes, id).value());
    }
  }
  static EngineOptions options(std::uint32_t device_blocks) {
    EngineOptions made;
    made.device_capacity_bytes = device_blocks * kBlockBytes;
    made.host_capacity_bytes = kGiB;
    made.storage_capacity_bytes = kGiB;
    return made;
  }
  [[nodiscard]] std::vector<Cause> causes() const {
    std::vector<Cause> made;
    for (const Transfer& transfer : platform.transfers()) made.push_back(transfer.cause);
    return made;
  }
  Planned policy;
  UntimedPlatform platform;
  std::vector<AllocationId> ids;
};

Trace blocks(TensorId tensors, const std::vector<std::vector<TensorId>>& uses) {
  return test::trace_of_uses(std::vector<Tensor>(tensors, {kBlockBytes, true, false}), uses);
}

// Tensor 0 leaves for storage after kernel 0 and is back before kernel 3, on a device of two.
TEST(Planned, StepsHappenAtTheirPlaces) {
  const Trace trace = blocks(3, {{0}, {1}, {2}, {0}});
  Plan plan;
  plan.before = {{},
                 {{PlanStep::kPreEvict, 0, Tier::kStorage}},
                 {{PlanStep::kPreEvict, 1, Tier::kHost}},
                 {{PlanStep::kPreEvict, 2, Tier::kHost}, {PlanStep::kPrefetch, 0}}};
  World world(trace, plan, 2);
  world.platform.run(0, {world.ids[0]});
  EXPECT_TRUE(world.platform.copied_down(world.ids[0]));
  world.platform.run(1, {world.ids[1]});
  world.platform.run(2, {world.ids[2]});
  world.platform.run(3, {world.ids[0]});
  EXPECT_THAT(world.causes(),
              ElementsAre(Cause::kPreEvict, Cause::kPreEvict, Cause::kPreEvict, Cause::kPrefetch));
  EXPECT_EQ(world.platform.transfers()[0].to, Tier::kStorage);
  EXPECT_EQ(world.platform.transfers()[1].to, Tier::kHost);
  EXPECT_EQ(world.platform.transfers()[3].from, Tier::kStorage);
  EXPECT_EQ(world.platform.engine().stats().faults, 3U);  // the first touches of each
}

// Nothing is planned, and kernel 2 does not fit: of 0, needed next in kernel 3, and 1, needed in
// kernel 1 of the next iteration, 1 goes.
TEST(Planned, WhatIsNeededLastMakesWay) {
  const Trace trace = blocks(3, {{0}, {1}, {2}, {0}});
  Plan plan;
  plan.before.resize(4);
  World world(trace, plan, 2);
  for (const std::uint32_t k : {0U, 1U, 2U}) world.platform.run(k, {world.ids[k]});
  EXPECT_FALSE(world.platform.copied_down(world.ids[0]));
  EXPECT_TRUE(world.platform.copied_down(world.ids[1]));
  world.platform.run(3, {world.ids[0]});
  EXPECT_EQ(world.platform.engine().stats().faults, 3U);
}

// The driver's way instead: 0 came first.
TEST(Planned, OrTheOldestMakesWay) {
  const Trace trace = blocks(3, {{0}, {1}, {2}, {0}});
  Plan plan;
  plan.before.resize(4);
  plan.before[2] = {{PlanStep::kAlloc, 2}};
  Planned policy("planned", trace, plan, Tier::kHost, Planned::Victims::kOldest);
  UntimedPlatform platform(World::options(2), policy);
  std::vector<AllocationId> ids;
  for (TensorId id = 0; id < 3; ++id)
    ids.push_back(platform.engine().allocate(kBlockBytes, id).value());
  for (const std::uint32_t k : {0U, 1U}) platform.run(k, {ids[k]});
  // For what is allocated ahead of kernel 2.
  ASSERT_FALSE(platform.transfers().empty());
  EXPECT_EQ(platform.transfers().front().blocks.front(), ids[0]);
  platform.run(2, {ids[2]});
  EXPECT_EQ(platform.engine().stats().faults, 2U);
}

// What is asked for again is the youngest: of 0 and 1, 1 then makes way.
TEST(Planned, OfTheOldestWhatIsAskedForIsTheYoungest) {
  const Trace trace = blocks(3, {{0}, {1}, {2}, {0}});
  Plan plan;
  plan.before.resize(4);
  plan.before[2] = {{PlanStep::kPrefetch, 0}};
  Planned policy("planned", trace, plan, Tier::kHost, Planned::Victims::kOldest);
  UntimedPlatform platform(World::options(2), policy);
  std::vector<AllocationId> ids;
  for (TensorId id = 0; id < 3; ++id)
    ids.push_back(platform.engine().allocate(kBlockBytes, id).value());
  for (const std::uint32_t k : {0U, 1U, 2U}) platform.run(k, {ids[k]});
  EXPECT_TRUE(platform.copied_down(ids[1]));
  EXPECT_FALSE(platform.copied_down(ids[0]));
}

// Tensors 0 and 1 share the first allocation; the plan means the one that is there.
TEST(Planned, TensorsLieWhereTheirLaunchesNameThem) {
  const Trace trace = blocks(3, {{0}, {1}, {2}, {2}});
  Plan plan;
  plan.before.resize(4);
  plan.before[2] = {{PlanStep::kPreEvict, 1, Tier::kStorage}};
  for (const bool binds : {false, true}) {
    Planned policy("planned", trace, plan, Tier::kHost, Planned::Victims::kOldest);
    if (binds) policy.bind_operands(trace);
    UntimedPlatform platform(World::options(4), policy);
    const AllocationId shared = platform.engine().allocate(kBlockBytes, 0).value();
    const AllocationId own = platform.engine().allocate(kBlockBytes, 2).value();
    platform.run(0, {shared});
    platform.run(1, {shared, own});  // another number of operands than the kernel has
    EXPECT_FALSE(platform.copied_down(shared));
    platform.run(1, {shared});
    EXPECT_EQ(platform.copied_down(shared), binds);
    EXPECT_FALSE(platform.copied_down(own));
  }
}

// A prefetch finds room that was planned to be made, or none: it never drives anything out.
TEST(Planned, PrefetchesTakeNoVictims) {
  const Trace trace = blocks(3, {{0}, {1}, {2}, {0}, {1}});
  Plan plan;
  plan.before.resize(5);
  plan.before[1] = {{PlanStep::kPreEvict, 0, Tier::kHost}};
  plan.before[3] = {{PlanStep::kPrefetch, 0}};
  World world(trace, plan, 2);
  world.platform.run(0, {world.ids[0]});
  world.platform.run(1, {world.ids[1]});
  world.platform.run(2, {world.ids[2]});  // takes the frame of 0; the prefetch of 0 has to wait
  EXPECT_EQ(world.platform.engine().stats().moved(Tier::kHost, Tier::kDevice), 0U);
  EXPECT_EQ(world.platform.engine().stats().evictions, 0U);
  world.platform.run(3, {world.ids[0]});  // now it is needed, and 2 is needed last
  EXPECT_TRUE(world.platform.copied_down(world.ids[2]));
  EXPECT_FALSE(world.platform.copied_down(world.ids[1]));
  EXPECT_EQ(world.platform.engine().stats().late_prefetches, 1U);
}

// What is launched outside the iteration (a position beyond its kernels, as the program's set-up
// has) or allocated beside the trace's tensors is no part of the plan.
TEST(Planned, WhatIsNotInThePlanIsLeftAlone) {
  const Trace trace = blocks(1, {{0}, {}, {}});
  Plan plan;
  plan.before.resize(3);
  plan.before[1] = {{PlanStep::kPreEvict, 0, Tier::kHost}};
  World world(trace, plan, 2);
  const AllocationId stranger = world.platform.engine().allocate(kBlockBytes, 99).value();
  for (const std::uint32_t position : {3U, 4U, 5U, 100U}) {
    world.platform.run(position, {stranger, world.ids[0]});
  }
  EXPECT_THAT(world.causes(), ElementsAre());
  world.platform.run(0, {world.ids[0]});
  EXPECT_THAT(world.causes(), ElementsAre(Cause::kPreEvict));
}

// A kernel whose operands nobody pins, as those of an operator that is only marked, finds no room
// for the last of them: what the plan does not know leaves, and none of the others.
TEST(Planned, WhatTheRunningKernelUsesDoesNotMakeWay) {
  Plan plan;
  plan.before.resize(1);
  World world(blocks(3, {{0, 1, 2}}), plan, 3);
  Engine& engine = world.platform.engine();
  const AllocationId unknown = engine.allocate(kBlockBytes, 99).value();
  world.platform.run(0, {unknown});
  const LaunchId marked = world.platform.begin(0, {});
  const Launch during{.position = 0, .accesses = {}};
  for (const AllocationId id : world.ids) {
    const ThreadFault fault{.block = engine.space().allocation(id).first_block, .write = true};
    engine.thread_faults(during, {&fault, 1});
    world.platform.finish_all();
  }
  world.platform.end(marked);
  EXPECT_TRUE(world.platform.copied_down(engine.space().allocation(unknown).first_block));
  for (const AllocationId id : world.ids) {
    EXPECT_FALSE(world.platform.copied_down(engine.space().allocation(id).first_block));
  }
}

}  // namespace
}  // namespace spillway
