// One seed, one policy: a random program on a random machine with injected failures, checked after
// every event. See docs/testing.md.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/sanitizers.h"
#include "platform/full_look.h"
#include "platform/placed_buffers.h"
#include "platform/random/random_program.h"
#include "platform/random_plans.h"
#include "platform/random_setup.h"
#include "platform/run_result.h"
#include "platform/sim/simulator.h"
#include "platform/watched_policy.h"

namespace spillway::sim {

// After how many events all blocks are walked; in the largest spaces four times as many. With the
// address sanitizer, which is for what the engine does to memory, most of the time would be the
// walks: the same events without it are walked after each.
inline constexpr std::uint64_t kEventsPerLook = SPILLWAY_ADDRESS_SANITIZER != 0 ? 16 : 1;

// Beside what the seed chooses.
struct ProgramTraits {
  bool exposes = false;  // launches store the addresses of what they write, and others write it
                         // unnamed
  bool updates = false;  // some launches run at the host
};

class RandomRun {
 public:
  // `policy_name`: one of the registry's, "adversarial" or "profiled".
  RandomRun(std::string_view policy_name, std::uint64_t seed, ProgramTraits traits = {})
      : exposes_(traits.exposes),
        certain_(traits.updates && seed % 3 == 1),
        rng_(seed),
        setup_(random_setup(rng_, policy_name, seed)),
        watched_(*setup_.policy) {
    setup_.shape.updates = traits.updates;
    setup_.options.engine.updates_are_certain = certain_;
    if (certain_) {
      setup_.machine.link.host_mapped_bytes_per_s = 0;  // far memory would take of host memory
    }
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
    const std::size_t in_flight = simulator_->launches().running();
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
      case ActionKind::kDiscardLazily:
        died(action.buffer);
        simulator_->discard(buffers_.at(action.buffer), action.kind == ActionKind::kDiscardEagerly
                                                            ? DiscardMode::kEager
                                                            : DiscardMode::kLazy);
        break;
      case ActionKind::kPrefetch:
        simulator_->prefetch(buffers_.at(action.buffer));
        break;
      case ActionKind::kPreEvictToHost:
      case ActionKind::kPreEvictToStorage:
        engine.pre_evict_blocks(
            allocation_of(action).first_block, allocation_of(action).block_count,
            action.kind == ActionKind::kPreEvictToHost ? Tier::kHost : Tier::kStorage);
        break;
      case ActionKind::kLaunch:
        launch(action);
        break;
      case ActionKind::kSetBudget:
        (void)engine.set_device_capacity(action.bytes);  // refused where launches use more
        break;
      case ActionKind::kSetHost:
        if (!certain_) {  // what updates have been promised stays
          engine.set_capacity_below(Tier::kHost, action.bytes);
        }
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
    Launch launch{.runs_at = action.runs_at,
                  .stream = action.stream,
                  .execution = action.kernel,
                  .position = action.kernel % setup_.kernels,
                  .accesses = {}};
    for (const BufferUse& use : action.uses) {
      const AllocationId id = buffers_.at(use.buffer);
      launch.accesses.push_back(
          {id, space.allocation(id).first_block + use.first_block, use.block_count, use.mode});
      if (exposes_ && use.mode == AccessMode::kReadWrite) {
        launch.accesses.back().mode = AccessMode::kExpose;
      }
    }
    launch.reaches = exposes_ && action.launch % 4 == 0 && action.runs_at == Tier::kDevice;
    if (plans_ && action.runs_at == Tier::kDevice) {
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
    const bool waits = simulator_->launches().running() > 0 || simulator_->stopped_threads() > 0;
    if (!waits && !draining_) {
      act(program_->next());
    } else if (engine.stuck() ||
               ((device_waits(engine) || update_waits(engine)) && !program_->signals_open())) {
      // Launches that could run may stand behind one that cannot: the engine does not say so then.
      if (const std::string wrong = wait_in_vain(engine); !wrong.empty()) {
        fail(wrong);
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

  // The launches end, everything is freed: nothing may be left anywhere.
  void drain() {
    note("the end: everything is freed");
    draining_ = true;
    while (going() && (simulator_->launches().running() > 0 || simulator_->stopped_threads() > 0)) {
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
    if (const std::string left = left_over(*simulator_); going() && !left.empty()) {
      fail(left);
    }
  }

  void check() {
    ++result_.events;
    const Engine& engine = simulator_->engine();
    const bool large = engine.space().block_slots() + simulator_->launches().running() > 1200;
    if (result_.events % (large ? 4 * kEventsPerLook : kEventsPerLook) == 0) {
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
    result_.add(simulator_->now_ns(), simulator_->launches().running(), engine);
  }

  void fail(const std::string& what) { result_.fail(what); }
  void note(std::string_view line) { result_.note(simulator_->now_ns(), line); }

  bool exposes_;
  bool certain_;  // updates cannot be withdrawn
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
