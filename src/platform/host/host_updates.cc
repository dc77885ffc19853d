// See host_updates.h.
#include "platform/host/host_updates.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>

#include "platform/common/process/clock.h"

namespace spillway::host {

// nullopt where one of them is not in the space, or not all in one allocation.
std::optional<Launch> HostUpdates::launch_of(std::span<const ProgramOperand> operands) const {
  Launch launch;
  launch.runs_at = Tier::kHost;
  for (const ProgramOperand& operand : operands) {
    const std::optional<BlockRange> blocks = addresses_.blocks_with(operand.start, operand.bytes);
    if (!blocks) {
      return std::nullopt;
    }
    launch.accesses.push_back({.allocation = blocks->allocation,
                               .first_block = blocks->first,
                               .block_count = blocks->count,
                               .mode = operand.mode});
  }
  return launch;
}

std::optional<UpdateId> HostUpdates::begin(std::span<const ProgramOperand> operands) {
  std::optional<Launch> launch = stopped_ ? std::nullopt : launch_of(operands);
  if (!launch) {
    return std::nullopt;
  }
  const UpdateBalance::Placement placement = balance_.place(*launch, engine_.space(), now_ns());
  if (placement.runs_at != Tier::kHost) {
    return std::nullopt;
  }
  const UpdateId update = ++last_;
  launch->tag = kTag | update;
  Running& running = running_[update];
  running.operands.assign(operands.begin(), operands.end());
  running.host_bytes = placement.host_bytes;
  const LaunchAdmission admission = engine_.issue_launch(*launch);
  if (admission.state == LaunchState::kTooLarge) {
    balance_.withdrawn(*launch, placement.host_bytes);
    running_.erase(update);
    return std::nullopt;
  }
  running.launch = admission.id;
  return update;
}

std::vector<Extents> HostUpdates::extents(UpdateId update, UndisturbedMutex& mutex) {
  constexpr std::chrono::milliseconds kHandlersWait{20};
  Running& running = running_.at(update);
  const TimeNs begin_ns = now_ns();
  if (!running.ready) {
    stalls_.begin(begin_ns);
    while (!running.ready) {
      mutex.wait_for(ready_, kHandlersWait);
      mutex.let_handlers_run();
      // Nothing is on its way, and what it waits for may be this thread's to end.
      const bool in_vain =
          engine_.transfers_in_flight() == 0 || now_ns() - begin_ns > kLongestWaitNs;
      if (!running.ready && in_vain) {
        withdraw(running);
      }
    }
    stalls_.end();
  }
  if (running.withdrawn) {
    return {};
  }
  std::vector<Extents> extents;
  std::transform(running.operands.begin(), running.operands.end(), std::back_inserter(extents),
                 [this](const ProgramOperand& operand) { return extents_of(operand); });
  running.computes_ns = now_ns();
  return extents;
}

void HostUpdates::withdraw(Running& running) {
  running.withdrawn = true;
  if (const std::optional<Launch> launch = launch_of(running.operands)) {
    balance_.withdrawn(*launch, running.host_bytes);
  }
  engine_.withdraw(running.launch);  // which releases it
}

bool HostUpdates::withdraw_waiting() {
  bool any = false;
  for (auto& [update, running] : running_) {
    if (!running.ready && running.launch != kNoLaunch) {
      withdraw(running);
      any = true;
    }
  }
  return any;
}

// Of the operand's bytes in order, those of each block; blocks that follow each other in host
// memory are one extent.
Extents HostUpdates::extents_of(const ProgramOperand& operand) {
  Extents extents;
  const BlockRange blocks =
      addresses_.blocks_with(operand.start, operand.bytes).value_or(BlockRange{});
  char* const start = static_cast<char*>(operand.start);
  for (BlockId id = blocks.first; id < blocks.first + blocks.count; ++id) {
    if (writes(operand.mode)) {
      take_from_children(id);
    }
    char* const block = addresses_.address_of(id);
    char* const from = std::max(start, block);
    char* const to = std::min(start + operand.bytes, block + kBlockBytes);
    char* const at = at_host(id) + (from - block);
    const auto bytes = static_cast<Bytes>(to - from);
    if (!extents.empty() && extents.back().at + extents.back().bytes == at) {
      extents.back().bytes += bytes;
    } else {
      extents.push_back({at, bytes});
    }
  }
  return extents;
}

// A child of a fork may still ask for what lies there: it keeps that place, and the block gets
// another.
void HostUpdates::take_from_children(BlockId id) {
  if (!places_.is_kept(id, Tier::kHost)) {
    return;
  }
  const Bytes bytes = engine_.space().block(id).bytes;
  const char* const before = at_host(id);
  places_.give_back(id, Tier::kHost, bytes);
  take_place(id);
  std::memcpy(at_host(id), before, bytes);
}

void HostUpdates::take_place(BlockId id) {
  if (!places_.take(id, Tier::kHost, engine_.space().block(id).bytes)) {
    failures_.fatal({ErrorCode::kUnsupported,
                     "host memory is full of what children of the program may still read; give "
                     "the space a larger host tier"});
  }
}

void HostUpdates::end(UpdateId update) {
  const Running& running = running_.at(update);
  const LaunchId launch = running.launch;
  if (!running.withdrawn) {
    balance_.update_ended(running.host_bytes, now_ns() - running.computes_ns);
  }
  running_.erase(update);
  engine_.end_launch(launch);
}

void HostUpdates::transfer_began(const Transfer& transfer) {
  balance_.transfer_began(transfer, now_ns());
}

void HostUpdates::transfer_ended(const Transfer& transfer, bool moved) {
  balance_.transfer_ended(transfer, now_ns(), moved);
}

void HostUpdates::released(std::uint64_t tag) {
  running_.at(tag & ~kTag).ready = true;
  ready_.notify_all();
}

void HostUpdates::zero(BlockId id) {
  take_place(id);
  std::memset(at_host(id), 0, engine_.space().block(id).bytes);
}

}  // namespace spillway::host
