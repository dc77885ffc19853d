// What the engine costs: a launch from its issue to its end, memory that comes and goes, the choice
// of a victim, the end of a transfer. Nothing moves and no policy thinks; 100,000 blocks are alive
// and 1,000 launches in flight, and twice, four and eight times as many of both. No event may cost
// more where there are more of them (docs/engine.md, "Cost"); processors' caches make an
// exception.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "engine/engine.h"

namespace spillway {
namespace {

constexpr std::uint32_t kBlocks = 100'000;
constexpr std::uint32_t kLaunches = 1'000;
constexpr std::uint32_t kOperands = 4;
constexpr StreamId kStreams = 4;
constexpr std::size_t kMostIterations = 4'000'000;  // before a table of the benchmark's own grows
constexpr Bytes kBytes = kPageBytes;  // of a block: how large it is makes no difference

class NullMechanism final : public Mechanism {
 public:
  void start_transfer(const Transfer& transfer) override { under_way.push_back(transfer.id); }
  void zero(std::span<const BlockId> /*blocks*/) override {}
  void map(std::span<const BlockId> /*blocks*/, bool /*writable*/) override {}
  void unmap(std::span<const BlockId> /*blocks*/) override {}
  void drop(std::span<const BlockId> /*blocks*/, Tier /*tier*/) override {}
  void faults_served(std::uint64_t /*launch*/) override {}
  void release_launch(std::uint64_t launch, std::span<const TransferId> /*transfers*/) override {
    released.push_back(launch);
  }

  std::deque<TransferId> under_way;
  std::deque<std::uint64_t> released;  // tags
};

class NullPolicy final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "null"; }
  [[nodiscard]] LaunchWindow window() const override { return admitted_at_once; }
  LaunchWindow admitted_at_once;
};

// An engine with `blocks` allocations of a block each, the first `resident` of them on the device.
class Program {
 public:
  Program(std::uint32_t blocks, std::uint32_t resident, std::uint32_t capacity)
      : engine({.device_capacity_bytes = capacity * kBytes,
                .host_capacity_bytes = 2 * blocks * kBytes,
                .host_batch_bytes = 1,
                .eviction_batch_bytes = 1,
                .room_ahead_bytes = 0},
               mechanism, policy) {
    for (std::uint32_t i = 0; i < blocks; ++i) {
      ids.push_back(*engine.allocate(kBytes, i, kBytes));
      first_blocks.push_back(engine.space().allocation(ids.back()).first_block);
    }
    launch_ids.reserve(kMostIterations);
    for (std::uint32_t i = 0; i < resident; ++i) {
      engine.end_launch(issue({use(i, AccessMode::kWrite)}, kNoStream));
    }
    mechanism.released.clear();
  }

  [[nodiscard]] Access use(std::uint32_t index, AccessMode mode) const {
    return {ids[index], first_blocks[index], 1, mode};
  }
  LaunchId issue(std::vector<Access> accesses, StreamId stream) {
    launch.tag = launch_ids.size();
    launch.stream = stream;
    launch.accesses = std::move(accesses);
    launch_ids.push_back(engine.issue_launch(launch).id);
    return launch_ids.back();
  }
  // Random operands among those from `first` on.
  void issue_random(std::uint32_t first, std::uint32_t count) {
    issue_four([&] { return first + static_cast<std::uint32_t>(rng.below(count)); });
  }
  // The next four, and so round all of them.
  void issue_next() {
    issue_four([&] { return next = next + 1 < ids.size() ? next + 1 : 0; });
  }
  template <typename Choose>
  void issue_four(Choose choose) {
    launch.tag = launch_ids.size();
    launch.stream = static_cast<StreamId>(launch_ids.size() % kStreams);
    launch.accesses.clear();
    for (std::uint32_t i = 0; i < kOperands; ++i) {
      launch.accesses.push_back(use(choose(), i == 0 ? AccessMode::kWrite : AccessMode::kRead));
    }
    launch_ids.push_back(engine.issue_launch(launch).id);
  }
  // The launch that was released first and has not ended.
  void end_oldest() {
    engine.end_launch(launch_ids[mechanism.released.front()]);
    mechanism.released.pop_front();
  }
  void end_all() {
    while (!mechanism.released.empty()) {
      end_oldest();
    }
  }

  NullMechanism mechanism;
  NullPolicy policy;
  Engine engine;
  std::vector<AllocationId> ids;
  std::vector<BlockId> first_blocks;
  std::vector<LaunchId> launch_ids;
  std::uint32_t next = 0;
  Launch launch;
  Rng rng{1};
};

std::uint32_t times(const benchmark::State& state, std::uint32_t number) {
  return number * static_cast<std::uint32_t>(state.range(0));
}

// Everything is there: a launch is issued and admitted, and the oldest one ends. Random operands
// are the worst that the processor's caches can meet.
void launch_finds_everything(benchmark::State& state) {
  const std::uint32_t blocks = times(state, kBlocks);
  Program program(blocks, blocks, blocks);
  for (std::uint32_t i = 0; i < times(state, kLaunches); ++i) {
    program.issue_random(0, blocks);
  }
  for (auto _ : state) {
    program.issue_random(0, blocks);
    program.end_oldest();
  }
  program.end_all();
}

// The same in the order in which the program allocated its memory, round and round, as training
// steps do.
void launch_in_the_programs_order(benchmark::State& state) {
  const std::uint32_t blocks = times(state, kBlocks);
  Program program(blocks, blocks, blocks);
  for (std::uint32_t i = 0; i < times(state, kLaunches); ++i) {
    program.issue_next();
  }
  for (auto _ : state) {
    program.issue_next();
    program.end_oldest();
  }
  program.end_all();
}

// The same over a few hundred blocks: how much of the above are the processor's caches.
void launch_in_a_working_set(benchmark::State& state) {
  const std::uint32_t blocks = times(state, kBlocks);
  Program program(blocks, blocks, blocks);
  for (std::uint32_t i = 0; i < times(state, kLaunches); ++i) {
    program.issue_random(blocks / 2, 500);
  }
  for (auto _ : state) {
    program.issue_random(blocks / 2, 500);
    program.end_oldest();
  }
  program.end_all();
}

// They wait for their admission, and are admitted as others end.
void launches_behind(benchmark::State& state, const LaunchWindow& window) {
  const std::uint32_t blocks = times(state, kBlocks);
  Program program(blocks, blocks, blocks);
  program.policy.admitted_at_once = window;
  for (std::uint32_t i = 0; i < times(state, kLaunches); ++i) {
    program.issue_next();
  }
  for (auto _ : state) {
    program.issue_next();
    program.end_oldest();
  }
  program.policy.admitted_at_once = {};
  program.end_all();
}

// Behind a window of one a stream.
void launch_waits_for_admission(benchmark::State& state) {
  launches_behind(state, {.launches_per_stream = 1});
}

// Behind a window in bytes: who is next in line waits for room.
void launch_waits_for_room(benchmark::State& state) {
  launches_behind(state, {.bytes = 2 * kOperands * kBytes});
}

// Every other one of many runs of numbers is free.
void allocate_and_free_among_free_runs(benchmark::State& state) {
  const std::uint32_t blocks = times(state, kBlocks);
  Program program(blocks, 0, blocks);
  for (std::uint32_t i = 0; i < blocks; i += 2) {
    program.engine.free(program.ids[i]);
  }
  std::vector<AllocationId> live(1000);
  for (AllocationId& id : live) {
    id = *program.engine.allocate(kBytes, 0, kBytes);
  }
  for (auto _ : state) {
    AllocationId& id = live[program.rng.below(live.size())];
    program.engine.free(id);
    id = *program.engine.allocate(kBytes, 0, kBytes);
  }
}

// A launch faults, and the oldest block that may leave is behind thousands that are pinned: it is
// found, copied down, and the launch's block comes. Two transfers end.
void victim_behind_pinned_blocks(benchmark::State& state) {
  const std::uint32_t pinned = times(state, kLaunches) * kOperands;
  const std::uint32_t blocks = times(state, kBlocks);
  const std::uint32_t resident = blocks / 2;
  Program program(blocks, resident, resident);
  for (std::uint32_t i = 0; i < pinned; ++i) {
    program.issue({program.use(i, AccessMode::kRead)}, i % kStreams);
  }
  program.mechanism.released.clear();
  std::uint32_t next = resident;
  for (auto _ : state) {
    const LaunchId id = program.issue({program.use(next, AccessMode::kWrite)}, kNoStream);
    while (!program.mechanism.under_way.empty()) {
      const TransferId transfer = program.mechanism.under_way.front();
      program.mechanism.under_way.pop_front();
      program.engine.transfer_finished(transfer);
    }
    program.engine.end_launch(id);
    next = next + 1 == blocks ? pinned : next + 1;
  }
}

// Copied down, and wanted again while it is still there: a transfer ends while thousands of
// launches are in flight.
void transfers_end(benchmark::State& state) {
  const std::uint32_t blocks = times(state, kBlocks);
  Program program(blocks, blocks, blocks);
  for (std::uint32_t i = 0; i < times(state, kLaunches); ++i) {
    program.issue_random(blocks / 2, blocks / 2);
  }
  std::uint32_t next = 0;
  for (auto _ : state) {
    const BlockId block = program.use(next, AccessMode::kRead).first_block;
    program.engine.pre_evict_blocks(block, 1, Tier::kHost);
    const TransferId transfer = program.mechanism.under_way.front();
    program.mechanism.under_way.pop_front();
    program.engine.transfer_finished(transfer);
    program.engine.prefetch_blocks(block, 1);
    next = (next + 1) % (blocks / 2);
  }
  program.end_all();
}

// Memory comes, a launch uses it, it is freed while a thousand launches are in flight, and the free
// takes effect when they have ended.
void free_waits_for_its_launch(benchmark::State& state) {
  const std::uint32_t blocks = times(state, kBlocks);
  const std::uint32_t launches = times(state, kLaunches);
  Program program(blocks, blocks, 2 * blocks);
  const auto one = [&] {
    const AllocationId id = *program.engine.allocate(kBytes, 0, kBytes);
    const BlockId block = program.engine.space().allocation(id).first_block;
    program.issue({{id, block, 1, AccessMode::kOverwrite}}, 0);
    program.engine.free(id);
  };
  for (std::uint32_t i = 0; i < launches; ++i) {
    one();
  }
  for (auto _ : state) {
    one();
    program.end_oldest();
  }
  program.end_all();
}

void scale(benchmark::internal::Benchmark* bench) {
  bench->RangeMultiplier(2)->Range(1, 8)->Unit(benchmark::kNanosecond);
}

BENCHMARK(launch_finds_everything)->Apply(scale);
BENCHMARK(launch_in_the_programs_order)->Apply(scale);
BENCHMARK(launch_in_a_working_set)->Apply(scale);
BENCHMARK(launch_waits_for_admission)->Apply(scale);
BENCHMARK(launch_waits_for_room)->Apply(scale);
BENCHMARK(allocate_and_free_among_free_runs)->Apply(scale);
BENCHMARK(victim_behind_pinned_blocks)->Apply(scale);
BENCHMARK(transfers_end)->Apply(scale);
BENCHMARK(free_waits_for_its_launch)->Apply(scale);

}  // namespace
}  // namespace spillway
