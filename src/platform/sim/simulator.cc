#include "platform/sim/simulator.h"

#include <algorithm>
#include <utility>

#include "platform/common/gpu_sizes.h"

namespace spillway::sim {
namespace {

// More than any trace can ask for; small enough that sums of it do not overflow.
constexpr Bytes kUnlimitedBytes = Bytes{1} << 60U;

}  // namespace

Bytes block_bytes(const Machine& machine) {
  return largest_block_bytes(machine.device.capacity_bytes, machine.device.block_bytes);
}

EngineOptions engine_options(const Machine& machine) {
  EngineOptions options;
  options.device_capacity_bytes = machine.device.capacity_bytes;
  options.host_capacity_bytes = machine.host.capacity_bytes;
  options.storage_capacity_bytes = machine.storage.capacity_bytes;
  options.device_frame_bytes = machine.device.frame_bytes;
  options.fault_batches_in_flight = machine.faults.batches_in_flight;
  if (machine.handles.cost_time()) {
    // What the CUDA platform has: copies out block by block, so that room is there soon.
    options.host_batch_bytes = copied_at_once_bytes(block_bytes(machine));
    options.storage_batch_bytes = options.eviction_batch_bytes = 1;
    options.frames_have_sizes = true;
  }
  return options;
}

SimulatorOptions simulator_options(const Machine& machine, const PolicyTraits& traits) {
  SimulatorOptions options{.engine = engine_options(machine), .failures = {}};
  if (traits.unlimited_device) {
    options.engine.device_capacity_bytes = kUnlimitedBytes;
  }
  if (!traits.uses_host) {
    options.engine.host_capacity_bytes = 0;
  }
  if (!traits.uses_storage) {
    options.engine.storage_capacity_bytes = 0;
  }
  options.engine.reclaim_discarded_first = traits.reclaims_dead_first;
  options.engine.clean_copies = traits.clean_copies;
  if (!traits.sees_queue) {
    options.engine.window.launches_per_stream = 1;  // it learns of a launch when that starts
  }
  options.hold_launches = !traits.pages;
  return options;
}

Simulator::Simulator(const Machine& machine, const SimulatorOptions& options, Policy& policy)
    : machine_(machine),
      options_(options),
      rng_(options.failures.seed),
      balance_(UpdateBalance::Device::kOwnMemory, {.up = machine.link.to_device_bytes_per_s,
                                                   .down = machine.link.from_device_bytes_per_s,
                                                   .host = machine.host.update_bytes_per_s()}),
      link_(machine_, clock_),
      contents_(engine_, clock_, options.engine.tracks_writes),
      handles_(machine_.handles, options.engine.device_capacity_bytes, engine_, clock_, link_),
      transfers_({.machine = machine_,
                  .failures = options_.failures,
                  .rng = rng_,
                  .engine = engine_,
                  .clock = clock_,
                  .links = link_.flows(),
                  .balance = balance_}),
      launches_({.machine = machine_,
                 .engine = engine_,
                 .clock = clock_,
                 .contents = contents_,
                 .link = link_,
                 .handles = handles_,
                 .transfers = transfers_,
                 .balance = balance_},
                options.hold_launches,
                [this](const LaunchTiming& timing) {
                  if (on_finished) {
                    on_finished(timing);
                  }
                }),
      threads_({.rng = rng_, .engine = engine_, .clock = clock_, .contents = contents_},
               [this](std::uint64_t thread) {
                 if (on_touched) {
                   on_touched(thread);
                 }
               }),
      engine_(options.engine, *this, policy) {}

// --- The program
// ----------------------------------------------------------------------------------

Result<AllocationId> Simulator::allocate(Bytes bytes, std::uint64_t tag, Bytes block_bytes) {
  Result<AllocationId> id = engine_.allocate(bytes, tag, block_bytes);
  if (id) {
    contents_.allocated(*id);
  }
  return id;
}

void Simulator::free(AllocationId id) { engine_.free(id); }

void Simulator::discard(AllocationId id, DiscardMode mode) {
  contents_.discarded(id, mode);
  engine_.discard(id, mode);
}

void Simulator::prefetch(AllocationId id) {
  contents_.revived(id);
  const Allocation& allocation = engine_.space().allocation(id);
  engine_.prefetch_blocks(allocation.first_block, allocation.block_count);
}

void Simulator::reuse(AllocationId id) {
  contents_.reused(id);
  engine_.reuse(id);
}

LaunchState Simulator::issue(Launch launch, TimeNs duration_ns) {
  return launches_.issue(std::move(launch), duration_ns);
}

SignalId Simulator::create_signal() { return launches_.create_signal(); }

void Simulator::record(SignalId signal, StreamId stream) { launches_.record(signal, stream); }

void Simulator::wait(SignalId signal, StreamId stream) { launches_.wait(signal, stream); }

void Simulator::touch(std::uint64_t thread, BlockId id, bool write) {
  threads_.touch(thread, id, write);
}

// --- What the engine asks
// -------------------------------------------------------------------------

void Simulator::start_transfer(const Transfer& transfer) {
  contents_.transfer_begins(transfer);
  const SimulatedTransfers::Begun begun = transfers_.begin(transfer);
  if (handles_.is_used()) {
    handles_.copy(transfer, begun.slot, begun.latency_ns);
  } else {
    clock_.push(clock_.now_ns() + begun.latency_ns, Event::Kind::kTransferStarts, begun.slot);
  }
}

void Simulator::zero(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    contents_.zeroed(block);
  }
  launches_.zeroed(blocks);
}

void Simulator::zero_at_host(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    contents_.zeroed_at_host(block);
  }
}

void Simulator::map(std::span<const BlockId> blocks, bool writable) {
  for (const BlockId id : blocks) {
    contents_.mapped(id, writable);
    if (handles_.is_used()) {
      handles_.back(id);
    }
    threads_.go_on(id);
  }
}

void Simulator::unmap(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    contents_.unmapped(block);
  }
}

void Simulator::drop(std::span<const BlockId> blocks, Tier tier) {
  for (const BlockId block : blocks) {
    contents_.dropped(block, tier);
    if (tier == Tier::kDevice && handles_.is_used()) {
      handles_.drop(block);
    }
    if (tier == Tier::kStorage) {
      transfers_.flash().trim(block);
    }
  }
}

void Simulator::end_transfer(std::uint32_t slot) {
  const SimulatedTransfers::Ended ended = transfers_.end(slot);
  contents_.transfer_ended(ended.transfer, ended.failed);
  launches_.transfer_ended(ended);
  threads_.arrive(ended.transfer, ended.failed);
  if (ended.failed) {
    engine_.transfer_failed(ended.transfer.id);
  } else {
    engine_.transfer_finished(ended.transfer.id);
  }
  for (const std::uint32_t waiting : ended.waiting) {
    launches_.try_start(waiting);
  }
}

// --- Time
// -----------------------------------------------------------------------------------------

bool Simulator::step() {
  const std::optional<TimeNs> flow_ns = links().next_completion_ns();
  const std::optional<TimeNs> event_ns = clock_.next_ns();
  if (!event_ns && !flow_ns) {
    return false;
  }
  ++events_;
  if (flow_ns && (!event_ns || *flow_ns <= *event_ns)) {
    clock_.pass_until(*flow_ns);
    if (const std::optional<std::uint64_t> slot = link_.flows().take_completed(clock_.now_ns())) {
      end_transfer(static_cast<std::uint32_t>(*slot));
    }
    return true;
  }
  const Event event = clock_.take();
  const auto slot = static_cast<std::uint32_t>(event.id);
  switch (event.kind) {
    case Event::Kind::kTransferStarts:
      transfers_.flow_behind(slot);
      break;
    case Event::Kind::kLaunchFinishes:
      launches_.finish(slot);
      break;
    case Event::Kind::kOrderEnds:
      handles_.order_ends([this](BlockId block, std::span<const std::uint32_t> slots) {
        launches_.handle_is_there(block, slots);
      });
      break;
    case Event::Kind::kCleared:
      link_.cleared();
      break;
    case Event::Kind::kFaultsArrive:
      threads_.faults_arrive();
      break;
  }
  return true;
}

Status Simulator::going() const {
  if (const std::optional<Error>& failed = broken()) {
    return tl::unexpected<Error>(*failed);
  }
  if (const std::optional<Error>& fatal = engine_.fatal()) {
    return tl::unexpected<Error>(*fatal);
  }
  return {};
}

Status Simulator::run_until_idle() { return run_until_fewer_than(1); }

Status Simulator::run_until_fewer_than(std::size_t launches) {
  return run_while([this, launches] { return launches_.running() >= launches; });
}

Status Simulator::run_until_device_idle() {
  return run_while([this] { return launches_.running_on_device() > 0; });
}

Status Simulator::run_while(const std::function<bool()>& goes_on) {
  while (goes_on()) {
    if (Status status = run_a_step(); !status) {
      return status;
    }
  }
  return going();
}

Status Simulator::run_a_step() {
  if (Status status = going(); !status) {
    return status;
  }
  if (!step()) {
    const std::optional<Error> stuck = engine_.stuck();
    return tl::unexpected<Error>(
        stuck.value_or(Error{ErrorCode::kDefect, "the simulation stopped with launches left"}));
  }
  return {};
}

Status Simulator::run_until(TimeNs at_ns) {
  while (true) {
    const auto is_due = [at_ns](std::optional<TimeNs> next_ns) {
      return next_ns && *next_ns <= at_ns;
    };
    if (!is_due(links().next_completion_ns()) && !is_due(clock_.next_ns())) {
      break;
    }
    if (Status status = going(); !status) {
      return status;
    }
    (void)step();
  }
  clock_.pass_until(at_ns);
  return going();
}

}  // namespace spillway::sim
