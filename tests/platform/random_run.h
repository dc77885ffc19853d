// One seed, one policy: a random program on a random machine with injected failures, checked after
// every event. See docs/testing.md.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/page_queues.h"
#include "platform/adversarial_policy.h"
#include "platform/random_machine.h"
#include "platform/sim/random_program.h"
#include "platform/sim/simulator.h"
#include "policy/registry.h"
#include "trace/generate.h"

namespace spillway::sim {

struct RunResult {
  std::uint64_t events = 0;
  std::uint64_t hash = 14695981039346656037U;  // of everything that can be seen after every event
  std::uint64_t stuck = 0;                     // times that the program ran out of memory
  std::optional<Error> gave_up;                // too many failures in a row, as it should
  EngineStats stats;
  std::string problem;              // empty: none
  std::deque<std::string> history;  // the last actions before it
};

class RandomRun {
 public:
  // `policy_name`: one of the registry's, or "adversarial".
  RandomRun(std::string_view policy_name, std::uint64_t seed) : rng_(seed) {
    machine_ = random_machine(rng_);
    options_.failures = random_failures(rng_);
    make_policy(policy_name);
    simulator_ = std::make_unique<Simulator>(machine_, options_, *policy_);
    simulator_->on_finished = [this](const LaunchTiming& timing) {
      program_->finished(launches_.at(timing.number));
      launches_.erase(timing.number);
    };
    program_ = std::make_unique<RandomProgram>(shape_, rng_.next());
  }

  RunResult run(std::uint64_t events) {
    while (result_.events < events && going()) {
      if (rng_.chance(0.4)) {
        act(program_->next());
      } else if (!simulator_->step()) {
        when_nothing_happens();
        continue;
      }
      check();
    }
    drain();
    result_.stats = simulator_->engine().stats();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool going() const { return result_.problem.empty() && !result_.gave_up; }

  void make_policy(std::string_view name) {
    shape_.budget_bytes_max = machine_.device.capacity_bytes;
    shape_.host_bytes_max = machine_.host.capacity_bytes;
    shape_.buffer_bytes_max = kBlockBytes * (1 + rng_.below(4));
    shape_.launch_bytes_max = machine_.device.capacity_bytes / (1 + rng_.below(3));
    shape_.launches_in_flight_max = 1 + static_cast<std::uint32_t>(rng_.below(4));

    const MlpShape network{
        .batch_size = 512, .inputs = 512, .width = 1024, .layers = 4, .training = {}};
    trace_ = generate_mlp(network);
    bool reclaims_dead_first = rng_.chance(0.8);
    bool holds_launches = rng_.chance(0.2);
    if (name == "adversarial") {
      policy_ = std::make_unique<AdversarialPolicy>(rng_.next());
    } else {
      const PolicyInfo* info = find_policy(name).value();
      // Planned for a network that has nothing to do with the program, on a machine that can run
      // it.
      Machine planned_for = machine_;
      planned_for.storage.capacity_bytes = kGiB;
      Result<std::unique_ptr<Policy>> made = info->make(trace_, planned_for, {});
      while (!made) {
        planned_for.device.capacity_bytes *= 2;
        made = info->make(trace_, planned_for, {});
      }
      policy_ = std::move(*made);
      machine_.host.capacity_bytes = info->traits.uses_host ? machine_.host.capacity_bytes : 0;
      machine_.storage.capacity_bytes =
          info->traits.uses_storage ? machine_.storage.capacity_bytes : 0;
      reclaims_dead_first = info->traits.reclaims_dead_first;
      holds_launches = !info->traits.pages;
    }
    // Sometimes the program may ask for more than there is.
    const Bytes everything = machine_.device.capacity_bytes + machine_.host.capacity_bytes +
                             machine_.storage.capacity_bytes;
    shape_.live_bytes_max = everything / 10 * (4 + rng_.below(8));

    options_.hold_launches = holds_launches;
    options_.engine = random_engine_options(rng_, machine_);
    options_.engine.reclaim_discarded_first = reclaims_dead_first;
  }

  const Allocation& allocation_of(const ProgramAction& action) {
    return simulator_->engine().space().allocation(buffers_.at(action.buffer));
  }

  void act(const ProgramAction& action) {
    note(describe(action));
    Engine& engine = simulator_->engine();
    switch (action.kind) {
      case ActionKind::kAllocate:
        buffers_[action.buffer] =
            simulator_->allocate(action.bytes, action.buffer % trace_.tensors.size()).value();
        break;
      case ActionKind::kFree:
        simulator_->free(buffers_.at(action.buffer));
        buffers_.erase(action.buffer);
        break;
      case ActionKind::kDiscardEagerly:
        simulator_->discard(buffers_.at(action.buffer), DiscardMode::kEager);
        break;
      case ActionKind::kDiscardLazily:
        simulator_->discard(buffers_.at(action.buffer), DiscardMode::kLazy);
        break;
      case ActionKind::kPrefetch:
        engine.prefetch_blocks(allocation_of(action).first_block,
                               allocation_of(action).block_count);
        break;
      case ActionKind::kPreEvictToHost:
        engine.pre_evict_blocks(allocation_of(action).first_block,
                                allocation_of(action).block_count, Tier::kHost);
        break;
      case ActionKind::kPreEvictToStorage:
        engine.pre_evict_blocks(allocation_of(action).first_block,
                                allocation_of(action).block_count, Tier::kStorage);
        break;
      case ActionKind::kLaunch:
        launch(action);
        break;
      case ActionKind::kSetBudget:
        (void)engine.set_device_capacity(action.bytes);  // refused where launches use more
        break;
      case ActionKind::kSetHost:
        engine.set_capacity_below(Tier::kHost, action.bytes);
        break;
    }
  }

  void launch(const ProgramAction& action) {
    const Space& space = simulator_->engine().space();
    Launch launch{.execution = action.kernel,
                  .position = action.kernel % static_cast<std::uint32_t>(trace_.kernels.size()),
                  .accesses = {}};
    for (const BufferUse& use : action.uses) {
      const AllocationId id = buffers_.at(use.buffer);
      launch.accesses.push_back(
          {id, space.allocation(id).first_block + use.first_block, use.block_count, use.mode});
    }
    launches_[++issued_] = action.launch;  // the simulator numbers from 1, too
    if (simulator_->issue(launch, action.duration_ns) == LaunchState::kTooLarge) {
      launches_.erase(issued_--);
      program_->finished(action.launch);
    }
  }

  // Nothing is under way. Launches that wait must be out of memory, and truly so; then the program
  // gives something up.
  void when_nothing_happens() {
    const Engine& engine = simulator_->engine();
    if (simulator_->running_launches() == 0) {
      act(program_->next());
      check();
      return;
    }
    if (!engine.stuck()) {
      fail("launches wait, nothing is under way, and the engine does not say why");
    } else if (const std::optional<BlockId> block = could_leave()) {
      fail(fmt::format("out of memory, but block {} could leave", *block));
    } else {
      ++result_.stuck;
      give_way();
    }
    check();
  }

  void give_way() {
    if (const std::optional<ProgramAction> action = program_->free_one()) {
      act(*action);
      return;
    }
    note("all limits are lifted");
    simulator_->engine().set_capacity_below(Tier::kHost, Bytes{1} << 40U);
    (void)simulator_->engine().set_device_capacity(machine_.device.capacity_bytes);
  }

  [[nodiscard]] std::optional<BlockId> could_leave() const {
    const Engine& engine = simulator_->engine();
    for (const PageQueue queue : {PageQueue::kUnused, PageQueue::kDiscarded}) {
      if (engine.queues().size(queue) > 0) {
        return engine.queues().oldest(queue);
      }
    }
    for (BlockId id = engine.queues().oldest(PageQueue::kUsed); id != kNoBlock;
         id = engine.queues().newer(id)) {
      const Block& block = engine.space().block(id);
      const bool copied = block.copies.has(Tier::kHost) || block.copies.has(Tier::kStorage);
      const bool room = engine.free_bytes(Tier::kHost) >= block.bytes ||
                        engine.free_bytes(Tier::kStorage) >= block.bytes;
      if (block.pins == 0 && (block.contents != Contents::kLive || copied || room)) {
        return id;
      }
    }
    return std::nullopt;
  }

  // The launches end, everything is freed: nothing may be left anywhere.
  void drain() {
    note("the end: everything is freed");
    while (going() && simulator_->running_launches() > 0) {
      if (!simulator_->step()) {
        give_way();
      }
      check();
    }
    while (going()) {
      const std::optional<ProgramAction> action = program_->free_one();
      if (!action) {
        break;
      }
      act(*action);
      check();
    }
    while (going() && simulator_->step()) {
      check();
    }
    for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
      if (going() && simulator_->engine().used_bytes(tier) != 0) {
        fail(fmt::format("everything is freed and {} still holds {} bytes", name_of(tier),
                         simulator_->engine().used_bytes(tier)));
      }
    }
    if (going() && simulator_->flash().live_bytes() != 0) {
      fail("everything is freed and the flash still holds live pages");
    }
  }

  void check() {
    ++result_.events;
    const Engine& engine = simulator_->engine();
    if (const Status status = engine.check_invariants(); !status) {
      fail(status.error().message);
    } else if (simulator_->broken()) {
      fail(simulator_->broken()->message);
    } else if (engine.fatal()) {
      result_.gave_up = *engine.fatal();
      if (options_.failures.transfer_fails < 0.5) {
        fail("gave up without a failure: " + engine.fatal()->message);
      }
    }
    add(static_cast<std::uint64_t>(simulator_->now_ns()));
    add(simulator_->running_launches());
    add(engine.transfers_in_flight());
    for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
      add(engine.used_bytes(tier));
      for (const Tier to : {Tier::kDevice, Tier::kHost, Tier::kStorage}) {
        add(engine.stats().moved(tier, to));
      }
    }
    add(engine.stats().evictions);
    add(engine.stats().faults);
    add(engine.stats().zeroed);
    add(engine.stats().saved_by_discard_bytes);
    add(engine.stats().failed_transfers);
  }

  void add(std::uint64_t value) { result_.hash = (result_.hash ^ value) * 1099511628211U; }

  void fail(std::string what) {
    if (result_.problem.empty()) {
      result_.problem = fmt::format("after {} events: {}", result_.events, what);
    }
  }

  void note(std::string line) {
    result_.history.push_back(
        fmt::format("event {} at {} ns: {}", result_.events, simulator_->now_ns(), line));
    if (result_.history.size() > 24) {
      result_.history.pop_front();
    }
  }

  Rng rng_;
  Machine machine_;
  SimulatorOptions options_;
  ProgramShape shape_;
  Trace trace_;
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<Simulator> simulator_;
  std::unique_ptr<RandomProgram> program_;
  std::map<std::uint32_t, AllocationId> buffers_;    // by the program's number
  std::map<std::uint64_t, std::uint64_t> launches_;  // the program's number
  std::uint64_t issued_ = 0;
  RunResult result_;
};

}  // namespace spillway::sim
