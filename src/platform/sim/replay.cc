// From kernels to launches. See replay.h.
#include "platform/sim/replay.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace spillway::sim {

Replay::Replay(const Trace& trace, const ReplayOptions& options, Simulator& simulator)
    : Replay(Program{.tensors = trace.tensors, .graphs = {trace.kernels}, .iterations = {}},
             options, simulator) {}

Replay::Replay(Program program, const ReplayOptions& options, Simulator& simulator)
    : program_(std::move(program)), options_(options), simulator_(&simulator) {
  simulator.on_finished = [this,
                           others = std::move(simulator.on_finished)](const LaunchTiming& timing) {
    finished(timing);
    if (others) {
      others(timing);
    }
  };
  simulator.on_gave_up = [this](AllocationId id) { remakes_.gave_up(id); };
}

Status Replay::prepare() {
  if (Status status = allocate(); !status) {
    return status;
  }
  for (std::uint32_t graph = 0; graph < program_.graphs.size(); ++graph) {
    graphs_.push_back(steps_of(graph));
  }
  for (PlaceId place = 0; place < places_.places.size(); ++place) {
    if (!program_.tensors[places_.places[place].tensor].persistent) {
      continue;
    }
    if (Status status = fill(allocations_[place]); !status) {
      return status;
    }
  }
  return {};
}

Status Replay::fill(AllocationId id) {
  Launch fill;
  fill.accesses.push_back(access_to(id, AccessMode::kWrite));
  fill.position = static_cast<std::uint32_t>(program_.graphs[0].size());
  if (Status status = launch(fill, 0, {}); !status) {
    return status;
  }
  return simulator_->run_until_idle();
}

Status Replay::allocate() {
  places_ = options_.shared_frame_bytes > 0
                ? handed_on_places(program_, options_.shared_frame_bytes,
                                   simulator_->engine().capacity_bytes(Tier::kDevice))
                : places_of_their_own(program_);
  for (const Place& place : places_.places) {
    const Result<AllocationId> allocation =
        simulator_->allocate(place.bytes, place.tensor, options_.block_bytes);
    if (!allocation) {
      return tl::unexpected<Error>(allocation.error());
    }
    allocations_.push_back(*allocation);
  }
  return {};
}

Access Replay::access_to(AllocationId id, AccessMode mode) const {
  const Allocation& allocation = simulator_->engine().space().allocation(id);
  return {id, allocation.first_block, allocation.block_count, mode};
}

void Replay::no_more(const std::vector<AllocationId>& lost) {
  for (const AllocationId id : lost) {
    simulator_->engine().set_recomputable(id, false);
  }
}

// Behind it what was made of it is as it was.
Status Replay::remake(Remakes::Maker maker, std::size_t iteration) {
  remakes_.remade(maker.makes);
  maker.launch.position = static_cast<std::uint32_t>(program_.graphs[0].size());
  maker.launch.execution =
      executions_.id_of(hash_launch("again", {{{.allocation = maker.launch.execution}}}));
  maker.launch.kind = hash_launch("again", {{{.allocation = maker.launch.kind}}}).first;
  const Status status =
      launch(maker.launch, maker.duration_ns, {.iteration = iteration, .again = true});
  // Without a queue nothing orders what needs it behind it.
  return status && options_.queue_depth == 0 ? simulator_->run_until_device_idle() : status;
}

Status Replay::die(AllocationId id, std::size_t iteration) {
  while (true) {
    std::optional<Remakes::Maker> maker = remakes_.before_death(id);
    if (!maker) {
      break;
    }
    if (Status status = remake(std::move(*maker), iteration); !status) {
      return status;
    }
  }
  std::vector<AllocationId> lost;
  remakes_.dies(id, lost);
  no_more(lost);
  simulator_->discard(id, DiscardMode::kEager);
  return {};
}

Result<std::vector<IterationResult>> Replay::run(std::span<const std::uint32_t> graphs,
                                                 std::uint32_t extra) {
  results_.assign(graphs.size() + extra, {});
  host_free_ns_ = kernel_began_ns_ = simulator_->now_ns();
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const bool counts = i < graphs.size();
    if (Status status = iterate(i, counts ? graphs[i] : 0); !status) {
      return tl::unexpected<Error>(status.error());
    }
    if (options_.queue_depth == 0) {
      note_end(results_[i]);  // with what died after the last launch
    }
    // What comes behind is there to be seen, not to be waited for.
    if (!counts && !graphs.empty() && results_[graphs.size() - 1].ended_ns > 0) {
      break;
    }
  }
  if (Status status = simulator_->run_until_idle(); !status) {
    return tl::unexpected<Error>(status.error());
  }
  results_.resize(graphs.size());
  return results_;
}

Status Replay::iterate(std::size_t iteration, std::uint32_t graph) {
  const std::vector<Step>& steps = graphs_[graph];
  for (std::size_t index = 0; index < steps.size(); ++index) {
    Step merged;
    if (steps[index].updates) {
      merged = with_updates(steps[index], static_cast<KernelIndex>(index));
    }
    const Step& step = steps[index].updates ? merged : steps[index];
    simulator_->balance().used(step.launch.accesses);
    if (Status status = wait_for_updates(step.launch); !status) {
      return status;
    }
    const Awaited awaited{.iteration = iteration,
                          .duration_ns = step.duration_ns,
                          .ends_kernel = true,
                          .ends_iteration = index + 1 == steps.size()};
    if (Status status = launch(step.launch, step.duration_ns, awaited); !status) {
      return status;
    }
    if (step.makes.id != kNoAllocation) {
      remakes_.made(step.launch, step.duration_ns, step.makes.id, step.makes.of);
      simulator_->engine().set_recomputable(step.makes.id, true);
    }
    if (options_.queue_depth == 0 || step.synchronizes) {
      if (Status status = simulator_->run_until_device_idle(); !status) {
        return status;
      }
      host_free_ns_ = std::max(host_free_ns_, simulator_->now_ns());
    }
    for (std::size_t i = 0; options_.tells_deaths && i < step.deaths.size(); ++i) {
      if (Status status = die(step.deaths[i], iteration); !status) {
        return status;
      }
    }
    for (const Update& ready : step.ready) {
      if (Status status = update(ready, iteration); !status) {
        return status;
      }
    }
  }
  return {};
}

Status Replay::launch(const Launch& launch, TimeNs duration_ns, const Awaited& awaited) {
  const Result<LaunchState> state = issue(launch, duration_ns, awaited);
  if (!state) {
    return tl::unexpected<Error>(state.error());
  }
  if (*state != LaunchState::kTooLarge) {
    return {};
  }
  if (!options_.pages) {
    return make_error(ErrorCode::kCannotRun,
                      "kernel {} needs more than the device's {} at once, and without paging it "
                      "cannot run in pieces",
                      launch.position,
                      format_bytes(simulator_->engine().capacity_bytes(Tier::kDevice)));
  }
  return launch_in_pieces(launch, duration_ns, awaited);
}

// When the host comes to it, the queue has room, and nothing that it needs is given up: while time
// passes more may be.
Result<LaunchState> Replay::issue(const Launch& launch, TimeNs duration_ns,
                                  const Awaited& awaited) {
  // The program knows nothing of what is made again: that costs what it takes to tell.
  const bool all_fits = peak_bytes() <= simulator_->engine().capacity_bytes(Tier::kDevice);
  TimeNs costs_ns = (awaited.again ? 0 : options_.launch_ns) + (all_fits ? 0 : options_.tracked_ns);
  while (true) {
    if (Status status = wait_for_turn(std::exchange(costs_ns, 0)); !status) {
      return tl::unexpected<Error>(status.error());
    }
    std::optional<Remakes::Maker> maker = remakes_.before(launch, awaited.again);
    if (!maker) {
      break;
    }
    if (Status status = remake(std::move(*maker), awaited.iteration); !status) {
      return tl::unexpected<Error>(status.error());
    }
  }
  Launch issued = launch;
  issued.stream = options_.queue_depth > 0 ? 0 : issued.stream;
  if (!awaited.again) {
    std::vector<AllocationId> lost;
    remakes_.issued(launch, lost);
    no_more(lost);
  }
  awaited_.push_back(awaited);
  const LaunchState state = simulator_->issue(std::move(issued), duration_ns);
  if (state == LaunchState::kTooLarge) {
    awaited_.pop_back();
  }
  return state;
}

// And the host has spent so much on it.
Status Replay::wait_for_turn(TimeNs costs_ns) {
  if (options_.queue_depth == 0) {
    return {};
  }
  if (Status status = simulator_->run_until_fewer_than(options_.queue_depth); !status) {
    return status;
  }
  host_free_ns_ = std::max(host_free_ns_, simulator_->now_ns()) + costs_ns;
  return simulator_->run_until(host_free_ns_);
}

// What paging does to a kernel that is larger than the device: it runs through its operands, and
// they come and go.
Status Replay::launch_in_pieces(const Launch& whole, TimeNs duration_ns, Awaited awaited) {
  const Engine& engine = simulator_->engine();
  const Bytes piece_bytes = engine.capacity_bytes(Tier::kDevice) / 2;
  Bytes total = 0;
  for (const Access& access : whole.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      total += engine.space().block(access.first_block + i).bytes;
    }
  }
  Launch piece{.execution = whole.execution, .position = whole.position, .accesses = {}};
  Bytes bytes = 0;
  TimeNs spent_ns = 0;
  Bytes done = 0;
  const Awaited last = std::exchange(awaited, {.iteration = awaited.iteration});
  const auto flush = [&]() -> Status {
    done += bytes;
    const auto until_ns = static_cast<TimeNs>(
        static_cast<double>(duration_ns) * static_cast<double>(done) / static_cast<double>(total));
    const Result<LaunchState> state =
        issue(piece, until_ns - spent_ns, done == total ? last : awaited);
    if (state && *state == LaunchState::kTooLarge) {
      return make_error(ErrorCode::kCannotRun, "a device of {} cannot hold two blocks",
                        format_bytes(engine.capacity_bytes(Tier::kDevice)));
    }
    spent_ns = until_ns;
    piece.accesses.clear();
    bytes = 0;
    if (!state) {
      return tl::unexpected<Error>(state.error());
    }
    return options_.queue_depth == 0 ? simulator_->run_until_device_idle() : Status{};
  };
  for (const Access& access : whole.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const Bytes block_bytes = engine.space().block(access.first_block + i).bytes;
      if (bytes > 0 && bytes + block_bytes > piece_bytes) {
        if (Status status = flush(); !status) {
          return status;
        }
      }
      piece.accesses.push_back({access.allocation, access.first_block + i, 1, access.mode});
      bytes += block_bytes;
    }
  }
  return flush();
}

void Replay::finished(const LaunchTiming& timing) {
  const Engine& engine = simulator_->engine();
  host_peak_bytes_ =
      std::max(host_peak_bytes_, engine.used_bytes(Tier::kHost) + engine.host_mapped_bytes());
  if (timing.runs_at == Tier::kHost) {
    updated(timing.number);
    return;
  }
  const Awaited awaited = awaited_.front();
  awaited_.pop_front();
  if (!awaited.ends_kernel) {
    return;
  }
  IterationResult& result = results_[awaited.iteration];
  result.kernel_stalls_ns.push_back(timing.finished_ns - kernel_began_ns_ - awaited.duration_ns);
  kernel_began_ns_ = timing.finished_ns;
  if (awaited.ends_iteration) {
    note_end(result);
  }
}

void Replay::note_end(IterationResult& result) const {
  result.ended_ns = simulator_->now_ns();
  result.transfer_busy_ns = simulator_->transfers().busy_ns();
  result.stats = simulator_->engine().stats();
}

}  // namespace spillway::sim
