// One seed, one policy: a random program on a random machine with injected failures, checked after
// every event. See docs/testing.md.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/page_queues.h"
#include "platform/placed_buffers.h"
#include "platform/random_plans.h"
#include "platform/random_setup.h"
#include "platform/sim/random_program.h"
#include "platform/sim/simulator.h"
#include "platform/watched_policy.h"

namespace spillway::sim {

struct RunResult {
  std::uint64_t events = 0;
  std::uint64_t hash = 14695981039346656037U;  // of everything that can be seen after every event
  std::uint64_t stuck = 0;                     // times that the program ran out of memory
  std::size_t launches_in_flight_most = 0;
  std::uint64_t touches = 0;     // by threads that had to stop
  std::uint64_t plans = 0;       // that were made at run time
  std::optional<Error> gave_up;  // too many failures in a row, as it should
  EngineStats stats;
  std::string problem;              // empty: none
  std::deque<std::string> history;  // the last actions before it
};

class RandomRun {
 public:
  // `policy_name`: one of the registry's, "adversarial" or "profiled".
  RandomRun(std::string_view policy_name, std::uint64_t seed)
      : rng_(seed), setup_(random_setup(rng_, policy_name, seed)), watched_(*setup_.policy) {
    simulator_ = std::make_unique<Simulator>(setup_.machine, setup_.options, watched_);
    simulator_->on_finished = [this](const LaunchTiming& timing) {
      const auto found = launches_.find(timing.number);
      program_->finished(found->second);
      placed_.finished(found->second);
      launches_.erase(found);
    };
    simulator_->on_touched = [this](std::uint64_t thread) { program_->finished(thread); };
    program_ = std::make_unique<RandomProgram>(setup_.shape, rng_.next());
    if (setup_.profiled != nullptr) {
      plans_.emplace(*setup_.profiled, setup_.machine, rng_.next());
    }
  }

  RunResult run(std::uint64_t events) {
    while (result_.events < events && going()) {
      if (rng_.chance(issues())) {
        act(program_->next());
      } else if (!simulator_->step()) {
        when_nothing_happens();
        continue;
      }
      check();
    }
    drain();
    result_.stats = simulator_->engine().stats();
    result_.plans = plans_ ? plans_->followed() : 0;
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool going() const { return result_.problem.empty() && !result_.gave_up; }

  // How often the program goes on rather than the machine: so that many launches are in flight
  // where the shape has them, now and then.
  double issues() {
    const std::size_t in_flight = simulator_->running_launches();
    result_.launches_in_flight_most = std::max(result_.launches_in_flight_most, in_flight);
    if (!setup_.bursts) {
      return 0.4;
    }
    if (in_flight >= setup_.shape.launches_in_flight_max) {
      filling_ = false;
    } else if (in_flight < setup_.shape.launches_in_flight_max / 4) {
      filling_ = true;
    }
    return filling_ ? 0.95 : 0.2;
  }

  const Allocation& allocation_of(const ProgramAction& action) {
    return simulator_->engine().space().allocation(buffers_.at(action.buffer));
  }

  void act(const ProgramAction& action) {
    note(describe(action));
    Engine& engine = simulator_->engine();
    switch (action.kind) {
      case ActionKind::kAllocate:
        allocate(action);
        break;
      case ActionKind::kFree:
        died(action.buffer);
        placed_.freed(buffers_.at(action.buffer));
        simulator_->free(buffers_.at(action.buffer));
        buffers_.erase(action.buffer);
        break;
      case ActionKind::kDiscardEagerly:
        died(action.buffer);
        simulator_->discard(buffers_.at(action.buffer), DiscardMode::kEager);
        break;
      case ActionKind::kDiscardLazily:
        died(action.buffer);
        simulator_->discard(buffers_.at(action.buffer), DiscardMode::kLazy);
        break;
      case ActionKind::kPrefetch:
        simulator_->prefetch(buffers_.at(action.buffer));
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
      case ActionKind::kReuse:
        simulator_->reuse(buffers_.at(action.buffer));
        break;
      case ActionKind::kRecord:
        watched_.record(signal_of(action), action.stream);
        simulator_->record(signal_of(action), action.stream);
        break;
      case ActionKind::kWait:
        watched_.wait(signal_of(action), action.stream);
        simulator_->wait(signal_of(action), action.stream);
        break;
      case ActionKind::kTouch: {
        const BufferUse& use = action.uses.front();
        const Allocation& allocation = engine.space().allocation(buffers_.at(use.buffer));
        simulator_->touch(action.launch, allocation.first_block + use.first_block,
                          writes(use.mode));
        result_.touches += simulator_->stopped_threads() > 0 ? 1U : 0U;
        break;
      }
    }
  }

  void allocate(const ProgramAction& action) {
    const AllocationId id =
        simulator_->allocate(action.bytes, action.buffer % setup_.tensors, action.block_bytes)
            .value();
    buffers_[action.buffer] = id;
    if (const std::string wrong = placed_.allocated(id, simulator_->engine().space());
        !wrong.empty()) {
      fail(wrong);
    }
  }

  void died(std::uint32_t buffer) {
    if (plans_) {
      plans_->died(buffers_.at(buffer));
    }
  }

  SignalId signal_of(const ProgramAction& action) {
    const auto [found, made] = signals_.try_emplace(action.signal, SignalId{0});
    if (made) {
      found->second = simulator_->create_signal();
    }
    return found->second;
  }

  void launch(const ProgramAction& action) {
    const Space& space = simulator_->engine().space();
    Launch launch{.stream = action.stream,
                  .execution = action.kernel,
                  .position = action.kernel % setup_.kernels,
                  .accesses = {}};
    for (const BufferUse& use : action.uses) {
      const AllocationId id = buffers_.at(use.buffer);
      launch.accesses.push_back(
          {id, space.allocation(id).first_block + use.first_block, use.block_count, use.mode});
    }
    if (plans_) {
      plans_->launched(launch, simulator_->now_ns(), space);
    }
    launches_[++issued_] = action.launch;  // the simulator numbers from 1, too
    placed_.named(action.launch, launch);
    if (simulator_->issue(launch, action.duration_ns) == LaunchState::kTooLarge) {
      launches_.erase(issued_--);
      placed_.finished(action.launch);
      program_->finished(action.launch);
    }
  }

  // Nothing is under way. Launches that wait must be out of memory, and truly so, or stand behind a
  // signal that nobody has recorded; then the program gives something up.
  void when_nothing_happens() {
    const Engine& engine = simulator_->engine();
    const bool waits = simulator_->running_launches() > 0 || simulator_->stopped_threads() > 0;
    if (!waits && !draining_) {
      act(program_->next());
    } else if (engine.stuck() || (!could_leave() && !program_->signals_open())) {
      // Launches that could run may stand behind one that cannot: the engine does not say so then.
      if (const std::optional<BlockId> block = could_leave()) {
        fail(fmt::format("out of memory, but block {} could leave", *block));
      }
      ++result_.stuck;
      give_way();
    } else if (const std::optional<ProgramAction> action = program_->record_one()) {
      act(*action);
    } else {
      fail("launches wait, nothing is under way, and the engine does not say why");
    }
    check();
  }

  void give_way() {
    if (const std::optional<ProgramAction> action = program_->free_one()) {
      act(*action);
      return;
    }
    note("all limits are lifted");
    if (lifted_at_ == simulator_->events()) {
      fail("out of memory without any limit");
    }
    lifted_at_ = simulator_->events();
    simulator_->engine().set_capacity_below(Tier::kHost, Bytes{1} << 40U);
    (void)simulator_->engine().set_device_capacity(setup_.machine.device.capacity_bytes);
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
    draining_ = true;
    while (going() && (simulator_->running_launches() > 0 || simulator_->stopped_threads() > 0)) {
      if (simulator_->step()) {
        check();
      } else {
        when_nothing_happens();
      }
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
    // The largest spaces are looked at after every fourth event.
    const bool large = engine.space().block_slots() + simulator_->running_launches() > 1200;
    if (!large || result_.events % 4 == 0) {
      if (const Status status = engine.check_invariants(); !status) {
        fail(status.error().message);
      }
      watched_.compare(engine, watching_);
    }
    if (!watched_.problem().empty()) {
      fail(watched_.problem());
    } else if (simulator_->broken()) {
      fail(simulator_->broken()->message);
    } else if (engine.fatal()) {
      result_.gave_up = *engine.fatal();
      if (setup_.options.failures.transfer_fails < 0.5) {
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
  Rng watching_{1};
  RandomSetup setup_;
  WatchedPolicy watched_;
  std::unique_ptr<Simulator> simulator_;
  std::unique_ptr<RandomProgram> program_;
  std::optional<RandomPlans> plans_;
  PlacedBuffers placed_;
  std::map<std::uint32_t, AllocationId> buffers_;    // by the program's number
  std::map<std::uint64_t, std::uint64_t> launches_;  // the program's number
  std::map<std::uint64_t, SignalId> signals_;        // by the program's number
  std::uint64_t issued_ = 0;
  std::uint64_t lifted_at_ = ~std::uint64_t{0};
  bool filling_ = true;
  bool draining_ = false;
  RunResult result_;
};

}  // namespace spillway::sim
