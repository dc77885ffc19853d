// Training in the near-memory model: processes in virtual time, the arbiter, who lies where, and
// what a whole iteration may never do.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "base/rng.h"
#include "platform/sim/near_memory/arbiter.h"
#include "platform/sim/near_memory/platforms.h"
#include "platform/sim/near_memory/process.h"

namespace spillway::sim::near_memory {
namespace {

constexpr std::array<double, kResourceCount> kGigabyteEach{1e9, 1e9, 1e9, 1e9, 1e9};

Process copy_then_wait(World& world, std::vector<TimeNs>& ends) {
  co_await world.transfer(bit(Resource::kToDevice), 1000);
  ends.push_back(world.now_ns());
  co_await world.wait(500);
  ends.push_back(world.now_ns());
}

Process after(World& world, const std::vector<TimeNs>& ends, std::size_t count, TimeNs& end_ns) {
  co_await world.until([&ends, count] { return ends.size() >= count; });
  end_ns = world.now_ns();
}

TEST(NearWorld, TransfersShareAndTimePasses) {
  World world(kGigabyteEach);
  std::vector<TimeNs> first;
  std::vector<TimeNs> second;
  TimeNs end_ns = 0;
  std::vector<Process> processes;
  processes.push_back(copy_then_wait(world, first));
  processes.push_back(copy_then_wait(world, second));
  processes.push_back(after(world, first, 2, end_ns));
  ASSERT_TRUE(world.run(std::move(processes)).has_value());
  EXPECT_THAT(first, ::testing::ElementsAre(2000, 2500)) << "1 GB/s for two copies of 1000 bytes";
  EXPECT_THAT(second, ::testing::ElementsAre(2000, 2500));
  EXPECT_EQ(end_ns, 2500);
}

TEST(NearWorld, SaysWhenNothingCanGoOn) {
  World world(kGigabyteEach);
  const std::vector<TimeNs> never;
  TimeNs end_ns = 0;
  std::vector<Process> processes;
  processes.push_back(after(world, never, 1, end_ns));
  const Status status = world.run(std::move(processes));
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kDefect);
  EXPECT_THAT(status.error().message, ::testing::HasSubstr("1 of 1 processes wait for ever"));
}

TEST(NearArbiter, OneSideAtATime) {
  Arbiter arbiter;
  EXPECT_TRUE(arbiter.takes_transfers());
  EXPECT_FALSE(arbiter.takes_kernel()) << "nobody wants it";
  arbiter.begin_transfer();
  arbiter.want_kernel();
  EXPECT_FALSE(arbiter.takes_kernel()) << "a transfer is on its way";
  EXPECT_FALSE(arbiter.takes_transfers()) << "no more until the kernel has run";
  arbiter.end_transfer();
  ASSERT_TRUE(arbiter.takes_kernel());
  arbiter.begin_kernel();
  EXPECT_FALSE(arbiter.takes_transfers());
  EXPECT_FALSE(arbiter.takes_kernel());
  arbiter.end_kernel();
  EXPECT_TRUE(arbiter.takes_transfers());
}

TEST(NearGpt, Table4) {
  const std::array<double, 5> billions{0.760, 1.3, 2.7, 6.7, 13.0};
  for (std::size_t i = 0; i < billions.size(); ++i) {
    const Gpt gpt = make_gpt(paper_models()[i]);
    EXPECT_NEAR(static_cast<double>(gpt.parameters()) / 1e9 / billions[i], 1, 0.03);
    // Kept on the GPU; with parameters, gradients and states beside them they would not fit.
    EXPECT_LT(gpt.activation_bytes, 32 * kGiB);
    EXPECT_GT(gpt.activation_bytes + 16 * gpt.parameters(), 32 * kGiB);
    double flop = 0;
    for (const Operation& operation : gpt.operations) flop += operation.forward_flop;
    const double tokens = static_cast<double>(gpt.shape.batch) * gpt.shape.context;
    EXPECT_GT(flop, 1.9 * tokens * static_cast<double>(gpt.parameters()));
    EXPECT_LT(flop, 2.4 * tokens * static_cast<double>(gpt.parameters()));
  }
}

// Four tensors of 100 floats in one channel: each 400 bytes, with its states 1200.
Gpt four_tensors() {
  Gpt gpt;
  gpt.tensors.assign(4, {1, 100});
  return gpt;
}

TEST(NearResidency, FillsTheMemoryInOrder) {
  const Residency residency(four_tensors(), 1, 3000, Placement::kRoundRobin);
  EXPECT_TRUE(residency.in_memory({1, Part::kSecondMoment}));
  EXPECT_TRUE(residency.in_memory({2, Part::kParameter}));
  EXPECT_FALSE(residency.in_memory({2, Part::kFirstMoment}));
  EXPECT_EQ(residency.free_bytes(0), 200);
  EXPECT_EQ(residency.storage_bytes(), 4800 - 2800);
}

TEST(NearResidency, EvictsWhatWasUpdatedFirst) {
  Residency residency(four_tensors(), 1, 4800, Placement::kRoundRobin);
  EXPECT_EQ(residency.victim(0)->tensor, 0) << "nothing is updated: what comes last in this pass";
  residency.updated(3);
  residency.updated(2);
  EXPECT_EQ(residency.victim(0)->tensor, 3);
  residency.keep(3, true);
  EXPECT_EQ(residency.victim(0)->tensor, 2);
  residency.keep(3, false);
  for (int i = 0; i < 3; ++i) {
    const Piece piece = *residency.victim(0);
    EXPECT_EQ(piece.tensor, 3);
    residency.leaves(piece);
    EXPECT_EQ(residency.free_bytes(0), static_cast<Bytes>(400 * i)) << "not before it has left";
    residency.left(piece);
  }
  EXPECT_EQ(residency.victim(0)->tensor, 2);
  EXPECT_EQ(residency.storage_peak_bytes(), 1200);
  residency.begin_iteration();
  EXPECT_EQ(residency.victim(0)->tensor, 0) << "what the last iteration updated is like any other";
}

TEST(NearResidency, GradientsLeaveSpaceForTheLargestUpdate) {
  Residency residency(four_tensors(), 1, 2000, Placement::kRoundRobin);
  while (residency.free_bytes(0) < 800) {
    const Piece piece = *residency.victim(0);
    residency.leaves(piece);
    residency.left(piece);
  }
  ASSERT_TRUE(residency.admits_gradient(0));
  residency.take_gradient(0);
  ASSERT_TRUE(residency.admits_gradient(1));
  residency.take_gradient(1);
  EXPECT_FALSE(residency.admits_gradient(2)) << "1200 are for an update";
  residency.free_gradient(0);
  EXPECT_TRUE(residency.admits_gradient(2));
}

TEST(NearResidency, RoundRobinByTensorPutsAllWeightsIntoOneChannel) {
  const Gpt gpt = make_gpt(paper_models()[0]);
  const Residency by_tensor(gpt, 2, kTiB, Placement::kRoundRobin);
  const Residency by_size(gpt, 2, kTiB, Placement::kBySize);
  const double all = 12.0 * static_cast<double>(gpt.parameters());
  EXPECT_LT(static_cast<double>(kTiB - by_tensor.free_bytes(1)) / all, 0.01);
  EXPECT_NEAR(static_cast<double>(kTiB - by_size.free_bytes(1)) / all, 0.5, 0.02);
}

// A small GPT and a platform, both made up.
struct MadeUp {
  Gpt gpt;
  Platform platform;
};
MadeUp make_up(std::uint64_t seed) {
  Rng rng(seed);
  GptShape shape{"made up",
                 static_cast<std::uint32_t>(1 + rng.below(6)),
                 static_cast<std::uint32_t>(64 * (1 + rng.below(4))),
                 4,
                 static_cast<std::uint32_t>(1 + rng.below(3)),
                 64};
  MadeUp made{make_gpt(shape), paper_platform(Updater::kKernel, {4e8, 1.4e8, 6e9})};
  Platform& platform = made.platform;
  platform.updater = rng.chance(0.5) ? Updater::kKernel : Updater::kCpu;
  platform.streams = rng.chance(0.5) ? Streams::kOne : Streams::kTwo;
  platform.placement = rng.chance(0.5) ? Placement::kRoundRobin : Placement::kBySize;
  platform.channels = static_cast<std::uint32_t>(1 + rng.below(3));
  platform.exclusive = platform.updater == Updater::kKernel || rng.chance(0.5);
  platform.storage_requests = static_cast<std::uint32_t>(1 + rng.below(3));
  const Bytes largest = made.gpt.tensors[0].bytes();
  platform.channel_bytes = 5 * largest + rng.below(12 * largest);
  platform.gpu_bytes = rng.chance(0.5) ? kGiB : made.gpt.activation_bytes + rng.below(2 * largest);
  return made;
}

TEST(NearTraining, WhateverThePlatformIterationsEndAndKeepTheRules) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    const MadeUp made = make_up(seed);
    const Result<Iteration> iteration = simulate_training(made.gpt, made.platform);
    ASSERT_TRUE(iteration.has_value()) << iteration.error().message;
    std::map<Lane, std::size_t> count;
    for (const Span& span : iteration->spans) {
      ++count[span.lane];
      ASSERT_LE(span.begin_ns, span.end_ns);
      ASSERT_GE(span.begin_ns, iteration->begin_ns);
      ASSERT_LE(span.end_ns, iteration->begin_ns + iteration->total_ns());
    }
    EXPECT_EQ(count[Lane::kUpdate], made.gpt.tensors.size()) << "each parameter once";
    EXPECT_EQ(count[Lane::kSend], made.gpt.tensors.size());
    EXPECT_EQ(count[Lane::kGpu], 2 * made.gpt.operations.size());
    EXPECT_LE(iteration->storage_peak_bytes, 12 * made.gpt.parameters());
    // What an iteration takes into the memory it has to put out again, in the steady state.
    EXPECT_LE(iteration->storage_written_bytes, iteration->storage_read_bytes);
    if (!made.platform.exclusive) {
      continue;
    }
    for (const Span& update : iteration->spans) {
      for (const Span& other : iteration->spans) {
        const bool both = update.lane == Lane::kUpdate && other.lane != Lane::kGpu &&
                          &update != &other && update.channel == other.channel;
        ASSERT_FALSE(both && update.begin_ns < other.end_ns && other.begin_ns < update.end_ns)
            << "a channel in acceleration mode was used";
      }
    }
  }
}

TEST(NearTraining, AnUpdateOnTheCpuSharesTheMemoryWithTransfers) {
  // One layer, everything in memory, no exclusion: what the link carries in all bounds the time.
  MadeUp made = make_up(1);
  made.platform = paper_platform(Updater::kCpu, {4e8, 1.4e8, 6e9});
  made.platform.exclusive = false;
  made.platform.gpu_flop_per_s = 1e18;
  const Result<Iteration> iteration = simulate_training(made.gpt, made.platform);
  ASSERT_TRUE(iteration.has_value());
  const auto parameters = static_cast<double>(made.gpt.parameters());
  const double updates_s = parameters / 1.4e8;
  const double gradients_s = 4 * parameters / 6e9;
  EXPECT_GE(to_seconds(iteration->backward_ns), updates_s + gradients_s);
}

TEST(NearTraining, EverythingInMemoryMovesNothingToStorage) {
  MadeUp made = make_up(3);
  made.platform.channel_bytes = kGiB;
  const Result<Iteration> iteration = simulate_training(made.gpt, made.platform);
  ASSERT_TRUE(iteration.has_value());
  EXPECT_EQ(iteration->storage_peak_bytes, 0);
  EXPECT_EQ(iteration->storage_read_bytes + iteration->storage_written_bytes, 0);
}

TEST(NearTraining, ATensorThatDoesNotFitIsOneLine) {
  MadeUp made = make_up(1);
  made.platform.channel_bytes = 4 * made.gpt.tensors[0].bytes();
  const Result<Iteration> iteration = simulate_training(made.gpt, made.platform);
  ASSERT_FALSE(iteration.has_value());
  EXPECT_EQ(iteration.error().code, ErrorCode::kCannotRun);
  EXPECT_THAT(iteration.error().message, ::testing::HasSubstr("does not fit into a channel"));
}

}  // namespace
}  // namespace spillway::sim::near_memory
