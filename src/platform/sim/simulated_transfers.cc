#include "platform/sim/simulated_transfers.h"

#include <utility>

namespace spillway::sim {
namespace {

TimeNs time_of(Bytes bytes, double bytes_per_s) {
  return bytes_per_s > 0 ? static_cast<TimeNs>(static_cast<double>(bytes) / bytes_per_s * 1e9) : 0;
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

SimulatedTransfers::Begun SimulatedTransfers::begin(const Transfer& transfer) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(moving_.size()));
    moving_.emplace_back();
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  Moving& moving = moving_[slot];
  moving.transfer = transfer;
  moving.resources = resources_of(transfer.from, transfer.to);
  moving.fails = parts_.rng.chance(parts_.failures.transfer_fails);
  if (under_way_.empty()) {
    busy_since_ns_ = parts_.clock.now_ns();
  }
  under_way_.insert(transfer.id);

  const Machine& machine = parts_.machine;
  TimeNs latency_ns = machine.link.latency_ns;
  if (transfer.cause == Cause::kFault && transfer.to == Tier::kDevice) {
    latency_ns += machine.faults.latency_ns;
  }
  if (transfer.from == Tier::kStorage) {
    latency_ns += machine.storage.read_latency_ns;
    for (const BlockId id : transfer.blocks) {
      flash_.read(parts_.engine.space().block(id).bytes);
    }
  }
  if (transfer.to == Tier::kStorage) {
    latency_ns += write_to_flash(moving);
  }
  const bool storage = transfer.from == Tier::kStorage || transfer.to == Tier::kStorage;
  if (storage && parts_.rng.chance(parts_.failures.storage_slow)) {
    latency_ns += kNsPerMs * static_cast<TimeNs>(1 + parts_.rng.below(100));
  }
  return {.slot = slot, .latency_ns = latency_ns};
}

TimeNs SimulatedTransfers::write_to_flash(Moving& moving) {
  const StorageTier& storage = parts_.machine.storage;
  moving.fails |= parts_.rng.chance(parts_.failures.storage_write_fails);
  TimeNs latency_ns = storage.write_latency_ns;
  for (const BlockId id : moving.transfer.blocks) {
    const Result<FlashWork> work = flash_.write(id, parts_.engine.space().block(id).bytes);
    if (!work) {
      moving.fails = true;
      continue;
    }
    // Garbage collection copies inside the device and erases; the host's write waits for both.
    const Bytes collected_bytes = work->moved_pages * storage.flash_page_bytes;
    latency_ns += time_of(collected_bytes, storage.read_bytes_per_s) +
                  time_of(collected_bytes, storage.write_bytes_per_s) +
                  static_cast<TimeNs>(work->erases) * storage.erase_latency_ns;
  }
  return latency_ns;
}

void SimulatedTransfers::flow_behind(std::uint32_t slot) {
  std::deque<std::uint32_t>& queue = link_queue_of(moving_[slot].transfer);
  queue.push_back(slot);
  if (queue.front() == slot) {
    flow(slot);
  }
}

// The first transfer of its kind carries its bytes.
void SimulatedTransfers::flow(std::uint32_t slot) {
  const Moving& moving = moving_[slot];
  parts_.links.start(slot, moving.resources, moving.transfer.bytes, parts_.clock.now_ns());
  if (tell_balance()) {
    parts_.balance.transfer_began(moving.transfer, parts_.clock.now_ns());
  }
}

SimulatedTransfers::Ended SimulatedTransfers::end(std::uint32_t slot) {
  Ended ended{
      .transfer = std::move(moving_[slot].transfer), .failed = moving_[slot].fails, .waiting = {}};
  const TimeNs now_ns = parts_.clock.now_ns();
  std::deque<std::uint32_t>& queue = link_queue_of(ended.transfer);
  queue.pop_front();
  if (tell_balance()) {
    parts_.balance.transfer_ended(ended.transfer, now_ns, !ended.failed);
  }
  if (!queue.empty()) {
    flow(queue.front());
  }
  free_slots_.push_back(slot);
  under_way_.erase(ended.transfer.id);
  if (under_way_.empty()) {
    busy_ns_ += now_ns - busy_since_ns_;
  }
  if (auto found = waiting_for_.extract(ended.transfer.id)) {
    ended.waiting = std::move(found.mapped());
  }
  return ended;
}

bool SimulatedTransfers::wait(TransferId id, std::uint32_t launch_slot) {
  if (!under_way_.contains(id)) {
    return false;
  }
  waiting_for_[id].push_back(launch_slot);
  return true;
}

TimeNs SimulatedTransfers::busy_ns() const {
  return busy_ns_ + (under_way_.empty() ? 0 : parts_.clock.now_ns() - busy_since_ns_);
}

std::deque<std::uint32_t>& SimulatedTransfers::link_queue_of(const Transfer& transfer) {
  return link_queues_[(index_of(transfer.from) * kTierCount + index_of(transfer.to)) * 4 +
                      static_cast<std::size_t>(transfer.cause)];
}

}  // namespace spillway::sim
