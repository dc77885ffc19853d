// Virtual time, transfers over fair links, tokens for contents. See simulator.h.
#include "platform/sim/simulator.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "platform/common/gpu_sizes.h"

namespace spillway::sim {
namespace {

// More than any trace can ask for; small enough that sums of it do not overflow.
constexpr Bytes kUnlimitedBytes = Bytes{1} << 60U;

TimeNs time_of(Bytes bytes, double bytes_per_s) {
  return bytes_per_s > 0 ? static_cast<TimeNs>(static_cast<double>(bytes) / bytes_per_s * 1e9) : 0;
}

double both_ways_bytes_per_s(const Link& link) {
  const double alone_bytes_per_s = link.to_device_bytes_per_s + link.from_device_bytes_per_s;
  return link.both_ways_bytes_per_s > 0 ? link.both_ways_bytes_per_s : alone_bytes_per_s;
}

ResourceSet resources_of(Tier from, Tier to) {
  unsigned set = 0;
  if (to == Tier::kDevice) {
    set |= bit(Resource::kToDevice);
  }
  if (from == Tier::kDevice) {
    set |= bit(Resource::kFromDevice);
  }
  if (set != 0) {
    set |= bit(Resource::kBothWays);
  }
  if (from == Tier::kStorage) {
    set |= bit(Resource::kStorageRead);
  }
  if (to == Tier::kStorage) {
    set |= bit(Resource::kStorageWrite);
  }
  return static_cast<ResourceSet>(set);
}

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
      links_({machine.link.to_device_bytes_per_s, machine.link.from_device_bytes_per_s,
              machine.storage.read_bytes_per_s, machine.storage.write_bytes_per_s,
              both_ways_bytes_per_s(machine.link)}),
      flash_(machine.storage),
      handles_(machine.handles, options.engine.device_capacity_bytes),
      balance_(UpdateBalance::Device::kOwnMemory, {.up = machine.link.to_device_bytes_per_s,
                                                   .down = machine.link.from_device_bytes_per_s,
                                                   .host = machine.host.update_bytes_per_s()}),
      engine_(options.engine, *this, policy) {}

// --- Transfers
// -------------------------------------------------------------------------------------

void Simulator::start_transfer(const Transfer& transfer) {
  if (free_moving_.empty()) {
    free_moving_.push_back(static_cast<std::uint32_t>(moving_.size()));
    moving_.emplace_back();
  }
  const std::uint32_t slot = free_moving_.back();
  free_moving_.pop_back();
  Moving& moving = moving_[slot];
  moving.transfer = transfer;
  moving.resources = resources_of(transfer.from, transfer.to);
  moving.live = true;
  under_way_.insert(transfer.id);
  moving.fails = rng_.chance(options_.failures.transfer_fails);
  if (transfers_++ == 0) {
    busy_since_ns_ = now_ns_;
  }
  for (const BlockId id : transfer.blocks) {
    tokens(id).arriving = transfer.to == Tier::kDevice;
    if (tokens(id).updates > 0) {
      fail(id, "moves under an update that runs");
    }
    if (tokens(id).retired || (!tokens(id).defined && !tokens(id).maybe_live)) {
      fail(id, "freed, discarded or never written, and it moves");
    }
  }

  TimeNs latency_ns = machine_.link.latency_ns;
  if (transfer.cause == Cause::kFault && transfer.to == Tier::kDevice) {
    latency_ns += machine_.faults.latency_ns;
  }
  const bool storage = transfer.from == Tier::kStorage || transfer.to == Tier::kStorage;
  if (transfer.from == Tier::kStorage) {
    latency_ns += machine_.storage.read_latency_ns;
    for (const BlockId id : transfer.blocks) {
      flash_.read(engine_.space().block(id).bytes);
    }
  }
  if (transfer.to == Tier::kStorage) {
    moving.fails |= rng_.chance(options_.failures.storage_write_fails);
    latency_ns += machine_.storage.write_latency_ns;
    for (const BlockId id : transfer.blocks) {
      const Result<FlashWork> work = flash_.write(id, engine_.space().block(id).bytes);
      if (!work) {
        moving.fails = true;
        continue;
      }
      // Garbage collection copies inside the device and erases; the host's write waits for both.
      const Bytes collected_bytes = work->moved_pages * machine_.storage.flash_page_bytes;
      latency_ns += time_of(collected_bytes, machine_.storage.read_bytes_per_s) +
                    time_of(collected_bytes, machine_.storage.write_bytes_per_s) +
                    static_cast<TimeNs>(work->erases) * machine_.storage.erase_latency_ns;
    }
  }
  if (storage && rng_.chance(options_.failures.storage_slow)) {
    latency_ns += kNsPerMs * static_cast<TimeNs>(1 + rng_.below(100));
  }
  if (!has_handles()) {
    push(now_ns_ + latency_ns, EventKind::kTransferStarts, slot);
    return;
  }
  moving.latency_ns = latency_ns;
  for (std::size_t i = 0; transfer.to == Tier::kDevice && i < transfer.blocks.size(); ++i) {
    order_back(transfer.blocks[i]);
  }
  const bool all_there = transfer.from == Tier::kDevice &&
                         std::all_of(transfer.blocks.begin(), transfer.blocks.end(),
                                     [this](BlockId id) { return backing(id).there; });
  const Order copy{.kind = Order::Kind::kCopy, .slot = slot};
  all_there ? order_ahead(copy) : order(copy);
}

// The first transfer of its kind carries its bytes.
void Simulator::flow(std::uint32_t slot) {
  const Moving& moving = moving_[slot];
  links_.start(slot, moving.resources, moving.transfer.bytes, now_ns_);
  if (updates_take_time()) {
    balance_.transfer_began(moving.transfer, now_ns_);
  }
}

void Simulator::end_transfer(std::uint32_t slot) {
  Moving& moving = moving_[slot];
  const Transfer transfer = std::move(moving.transfer);
  const bool fails = moving.fails;
  std::deque<std::uint32_t>& stream = link_queue_of(transfer);
  stream.pop_front();
  if (updates_take_time()) {
    balance_.transfer_ended(transfer, now_ns_, !fails);
  }
  if (!stream.empty()) {
    flow(stream.front());
  }
  moving.live = false;
  free_moving_.push_back(slot);
  if (--transfers_ == 0) {
    busy_ns_ += now_ns_ - busy_since_ns_;
  }
  for (const BlockId id : transfer.blocks) {
    Tokens& block = tokens(id);
    block.arriving = false;
    block.held[index_of(transfer.to)] = fails ? kPoisonToken : block.held[index_of(transfer.from)];
  }
  transfer_is_over(transfer, fails);
}

TimeNs Simulator::transfer_busy_ns() const {
  return busy_ns_ + (transfers_ > 0 ? now_ns_ - busy_since_ns_ : 0);
}

// --- Time
std::deque<std::uint32_t>& Simulator::link_queue_of(const Transfer& transfer) {
  return link_queues_[(index_of(transfer.from) * kTierCount + index_of(transfer.to)) * 4 +
                      static_cast<std::size_t>(transfer.cause)];
}

// ------------------------------------------------------------------------------------------

void Simulator::push(TimeNs at_ns, EventKind kind, std::uint64_t id) {
  queue_.push({at_ns, order_++, kind, id});
}

std::optional<TimeNs> Simulator::next_event_ns() const {
  const std::optional<TimeNs> flow_ns = links_.next_completion_ns();
  if (queue_.empty()) {
    return flow_ns;
  }
  return flow_ns ? std::min(*flow_ns, queue_.top().at_ns) : queue_.top().at_ns;
}

bool Simulator::step() {
  const std::optional<TimeNs> flow_ns = links_.next_completion_ns();
  if (queue_.empty() && !flow_ns) {
    return false;
  }
  ++events_;
  if (flow_ns && (queue_.empty() || *flow_ns <= queue_.top().at_ns)) {
    now_ns_ = std::max(now_ns_, *flow_ns);
    if (const std::optional<std::uint64_t> slot = links_.take_completed(now_ns_)) {
      end_transfer(static_cast<std::uint32_t>(*slot));
    }
    return true;
  }
  const Event event = queue_.top();
  queue_.pop();
  now_ns_ = event.at_ns;
  if (event.kind == EventKind::kTransferStarts) {
    const auto slot = static_cast<std::uint32_t>(event.id);
    std::deque<std::uint32_t>& stream = link_queue_of(moving_[slot].transfer);
    stream.push_back(slot);
    if (stream.front() == slot) {
      flow(slot);
    }
  } else if (event.kind == EventKind::kLaunchFinishes) {
    finish(static_cast<std::uint32_t>(event.id));
  } else if (event.kind == EventKind::kOrderEnds) {
    order_ends();
  } else if (event.kind == EventKind::kCleared) {
    cleared();
  } else {
    faults_arrive();
  }
  return true;
}

Status Simulator::going() const {
  if (broken_) {
    return tl::unexpected<Error>(*broken_);
  }
  if (const std::optional<Error>& fatal = engine_.fatal()) {
    return tl::unexpected<Error>(*fatal);
  }
  return {};
}

Status Simulator::run_until_idle() { return run_until_fewer_than(1); }

Status Simulator::run_until_fewer_than(std::size_t launches) {
  return run_while([this, launches] { return issued_ >= launches; });
}

Status Simulator::run_until_device_idle() {
  return run_while([this] { return issued_ > updates_; });
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
    const std::optional<TimeNs> next_ns = next_event_ns();
    if (!next_ns || *next_ns > at_ns) {
      break;
    }
    if (Status status = going(); !status) {
      return status;
    }
    (void)step();
  }
  now_ns_ = std::max(now_ns_, at_ns);
  return going();
}

}  // namespace spillway::sim
