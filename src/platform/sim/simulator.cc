// Virtual time, transfers over fair links, tokens for contents. See simulator.h.
#include "platform/sim/simulator.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace spillway::sim {
namespace {

constexpr std::uint64_t kPoison =
    ~std::uint64_t{0};  // what a frame holds before anything is put in
// More than any trace can ask for; small enough that sums of it do not overflow.
constexpr Bytes kUnlimitedBytes = Bytes{1} << 60U;

TimeNs time_of(Bytes bytes, double bytes_per_s) {
  return bytes_per_s > 0 ? static_cast<TimeNs>(static_cast<double>(bytes) / bytes_per_s * 1e9) : 0;
}

ResourceSet resources_of(Tier from, Tier to) {
  ResourceSet set = 0;
  set |= to == Tier::kDevice ? bit(Resource::kToDevice) : ResourceSet{0};
  set |= from == Tier::kDevice ? bit(Resource::kFromDevice) : ResourceSet{0};
  set |= from == Tier::kStorage ? bit(Resource::kStorageRead) : ResourceSet{0};
  set |= to == Tier::kStorage ? bit(Resource::kStorageWrite) : ResourceSet{0};
  return set;
}

}  // namespace

EngineOptions engine_options(const Machine& machine) {
  EngineOptions options;
  options.device_capacity_bytes = machine.device.capacity_bytes;
  options.host_capacity_bytes = machine.host.capacity_bytes;
  options.storage_capacity_bytes = machine.storage.capacity_bytes;
  options.device_frame_bytes = machine.device.frame_bytes;
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
  options.hold_launches = !traits.pages;
  return options;
}

Simulator::Simulator(const Machine& machine, const SimulatorOptions& options, Policy& policy)
    : machine_(machine),
      options_(options),
      rng_(options.failures.seed),
      links_({machine.link.to_device_bytes_per_s, machine.link.from_device_bytes_per_s,
              machine.storage.read_bytes_per_s, machine.storage.write_bytes_per_s}),
      flash_(machine.storage),
      engine_(options.engine, *this, policy) {}

Result<AllocationId> Simulator::allocate(Bytes bytes, std::uint64_t tag) {
  Result<AllocationId> id = engine_.allocate(bytes, tag);
  if (id) {
    const Allocation& allocation = engine_.space().allocation(*id);
    for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
      const BlockId block = allocation.first_block + i;
      // A page that is shared with older allocations stays as it is.
      if (engine_.space().block(block).contents == Contents::kUndefined) {
        forget_contents(block);
        tokens(block).fresh = true;
      }
    }
  }
  return id;
}

void Simulator::free(AllocationId id) {
  const Allocation allocation = engine_.space().allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    if (engine_.space().block(allocation.first_block + i).tenants == 1) {
      forget_contents(allocation.first_block + i);
    }
  }
  engine_.free(id);
}

void Simulator::discard(AllocationId id, DiscardMode mode) {
  const Allocation& allocation = engine_.space().allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count && !allocation.packed; ++i) {
    forget_contents(allocation.first_block + i);
  }
  engine_.discard(id, mode);
}

void Simulator::forget_contents(BlockId id) { tokens(id).defined = false; }

// --- Launches
// --------------------------------------------------------------------------------------

LaunchState Simulator::issue(Launch launch, TimeNs duration_ns) {
  launch.seq = next_seq_++;
  Running run{.launch = launch, .timing = {}, .faults_served_ns = {}};
  run.timing = {.seq = launch.seq, .issued_ns = now_ns_, .duration_ns = duration_ns};
  running_.push_back(std::move(run));
  const LaunchAdmission admission = engine_.begin_launch(launch);
  if (admission.state == LaunchState::kTooLarge) {
    running_.pop_back();
  }
  return admission.state;
}

Simulator::Running* Simulator::find(LaunchSeq seq) {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const Running& run) { return run.launch.seq == seq; });
  return found == running_.end() ? nullptr : &*found;
}

void Simulator::faults_served(LaunchSeq seq) {
  Running* run = find(seq);
  assert(run != nullptr);
  run->faults_served_ns = now_ns_;
}

// When the launch will end. A machine that replays faults lets the launch run while blocks that
// were on their way arrive: it ends when its work is done and its last block is there, whichever is
// later; only what it had to fault on holds it up from the start. Zeroed blocks need no transfer,
// but each batch of them is handled like one of faults.
void Simulator::launch_ready(LaunchSeq seq) {
  Running* run = find(seq);
  assert(run != nullptr);
  run->timing.ready_ns = now_ns_;
  take_up(run->launch);
  const std::uint32_t batch = std::max(machine_.faults.batch_blocks, 1U);
  const TimeNs zero_faults_ns =
      (run->zeroed_on_fault + batch - 1) / batch * machine_.faults.latency_ns;
  const bool replay = machine_.faults.model == FaultModel::kReplayable && !options_.hold_launches;
  const TimeNs begins_ns = replay ? run->faults_served_ns.value_or(run->timing.issued_ns) : now_ns_;
  const TimeNs works_until_ns = begins_ns + zero_faults_ns + run->timing.duration_ns;
  push(std::max(works_until_ns, now_ns_), EventKind::kLaunchFinishes, seq);
}

void Simulator::finish(LaunchSeq seq) {
  Running* run = find(seq);
  assert(run != nullptr);
  const Running done = std::move(*run);
  *run = std::move(running_.back());
  running_.pop_back();
  leave(done.launch);
  engine_.end_launch(seq);
  LaunchTiming timing = done.timing;
  timing.finished_ns = now_ns_;
  if (on_finished) {
    on_finished(timing);
  }
}

// --- Contents
// --------------------------------------------------------------------------------------

Simulator::Tokens& Simulator::tokens(BlockId id) {
  if (id >= tokens_.size()) {
    tokens_.resize(std::max<std::size_t>(id + 1, engine_.space().block_slots()));
  }
  return tokens_[id];
}

void Simulator::fail(BlockId id, std::string_view what) {
  if (!broken_) {
    broken_ = Error{ErrorCode::kDefect, fmt::format("contents lost: block {} at {}: {}", id,
                                                    format_time(now_ns_), what)};
  }
}

// The launch may run from now on.
void Simulator::take_up(const Launch& launch) {
  for (const Access& access : launch.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const BlockId id = access.first_block + i;
      check_read(id, access);
      ++tokens(id).uses;
    }
  }
}

void Simulator::check_read(BlockId id, const Access& access) {
  const Tokens& block = tokens(id);
  const Token held = block.held[index_of(Tier::kDevice)];
  if (!block.mapped) {
    fail(id, "a launch runs on a frame that is not mapped");
  }
  if (access.mode == AccessMode::kOverwrite &&
      !engine_.space().allocation(access.allocation).packed) {
    return;
  }
  if (block.defined && held != block.expected) {
    fail(id, "a launch does not find what the program last wrote");
  } else if (!block.defined && held != 0 && (block.fresh || held >> 32U != id)) {
    fail(id, block.fresh ? "a launch finds bytes where nothing was ever written"
                         : "a launch finds bytes of another block");
  }
}

// The launch has run.
void Simulator::leave(const Launch& launch) {
  for (const Access& access : launch.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const BlockId id = access.first_block + i;
      Tokens& block = tokens(id);
      --block.uses;
      if (writes(access.mode)) {
        block.expected = (Token{id} << 32U) | ++version_;
        block.held[index_of(Tier::kDevice)] = block.expected;
        block.defined = true;
        block.fresh = false;
      }
    }
  }
}

void Simulator::zero(BlockId block) {
  if (tokens(block).uses > 0) {
    fail(block, "zeroed under a launch that runs");
  }
  tokens(block).held[index_of(Tier::kDevice)] = 0;
  if (engine_.space().block(block).pins == 0) {
    return;
  }
  for (Running& run : running_) {
    run.zeroed_on_fault += run.timing.ready_ns == 0 ? 1 : 0;
  }
}

void Simulator::map(BlockId block, bool /*writable*/) { tokens(block).mapped = true; }

void Simulator::unmap(BlockId block) {
  if (tokens(block).uses > 0) {
    fail(block, "unmapped under a launch that runs");
  }
  tokens(block).mapped = false;
}

void Simulator::drop(BlockId block, Tier tier) {
  if (tier == Tier::kDevice && tokens(block).mapped) {
    fail(block, "its device frame is dropped while launches may use it");
  }
  tokens(block).held[index_of(tier)] = kPoison;
  if (tier == Tier::kStorage) {
    flash_.trim(block);
  }
}

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
  moving.fails = rng_.chance(options_.failures.transfer_fails);
  if (transfers_++ == 0) {
    busy_since_ns_ = now_ns_;
  }
  for (const BlockId id : transfer.blocks) {
    if (!tokens(id).defined) {
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
  push(now_ns_ + latency_ns, EventKind::kTransferStarts, slot);
}

void Simulator::end_transfer(std::uint32_t slot) {
  Moving& moving = moving_[slot];
  const Transfer transfer = std::move(moving.transfer);
  const bool fails = moving.fails;
  std::deque<std::uint32_t>& stream = stream_of(transfer);
  stream.pop_front();
  if (!stream.empty()) {
    const Moving& next = moving_[stream.front()];
    links_.start(stream.front(), next.resources, next.transfer.bytes, now_ns_);
  }
  moving.live = false;
  free_moving_.push_back(slot);
  if (--transfers_ == 0) {
    busy_ns_ += now_ns_ - busy_since_ns_;
  }
  for (const BlockId id : transfer.blocks) {
    Tokens& block = tokens(id);
    block.held[index_of(transfer.to)] = fails ? kPoison : block.held[index_of(transfer.from)];
  }
  if (fails) {
    engine_.transfer_failed(transfer.id);
  } else {
    engine_.transfer_finished(transfer.id);
  }
}

TimeNs Simulator::transfer_busy_ns() const {
  return busy_ns_ + (transfers_ > 0 ? now_ns_ - busy_since_ns_ : 0);
}

// --- Time
std::deque<std::uint32_t>& Simulator::stream_of(const Transfer& transfer) {
  return streams_[(index_of(transfer.from) * kTierCount + index_of(transfer.to)) * 4 +
                  static_cast<std::size_t>(transfer.cause)];
}

// ------------------------------------------------------------------------------------------

void Simulator::push(TimeNs at_ns, EventKind kind, std::uint64_t id) {
  queue_.push({at_ns, order_++, kind, id});
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
    std::deque<std::uint32_t>& stream = stream_of(moving_[slot].transfer);
    stream.push_back(slot);
    if (stream.front() == slot) {
      links_.start(slot, moving_[slot].resources, moving_[slot].transfer.bytes, now_ns_);
    }
  } else {
    finish(event.id);
  }
  return true;
}

Status Simulator::run_until_idle() {
  while (!running_.empty()) {
    if (broken_) {
      return tl::unexpected<Error>(*broken_);
    }
    if (const std::optional<Error>& fatal = engine_.fatal()) {
      return tl::unexpected<Error>(*fatal);
    }
    if (!step()) {
      const std::optional<Error> stuck = engine_.stuck();
      return tl::unexpected<Error>(
          stuck.value_or(Error{ErrorCode::kDefect, "the simulation stopped with launches left"}));
    }
  }
  return {};
}

}  // namespace spillway::sim
