// See device_updates.h.
#include "platform/cuda/stream/device_updates.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <iterator>
#include <utility>

#include "platform/common/process/clock.h"
#include "platform/common/process/current_module.h"

namespace spillway::cuda {
namespace {

CudaOperand on_device(const ProgramOperand& operand) {
  return {.address = reinterpret_cast<std::uint64_t>(operand.start),
          .bytes = operand.bytes,
          .mode = operand.mode};
}

}  // namespace

std::optional<Launch> DeviceUpdates::launch_of(std::span<const ProgramOperand> operands,
                                               const ProgramMemory& memory) {
  Launch launch;
  launch.runs_at = Tier::kHost;
  for (const ProgramOperand& operand : operands) {
    const CudaOperand named = on_device(operand);
    Bytes found_bytes = 0;
    for (const Access& access : memory.accesses_of({&named, 1})) {
      found_bytes += access.to_bytes - access.from_bytes;
      launch.accesses.push_back(access);
    }
    if (operand.bytes == 0 || found_bytes != operand.bytes) {
      return std::nullopt;
    }
  }
  return launch;
}

UpdateBalance::Placement DeviceUpdates::place(const Launch& whole) {
  has_placed_ = true;
  return balance_.place(whole, engine_.space(), now_ns());
}

void DeviceUpdates::transfer_began(const Transfer& transfer) {
  if (has_placed_) {
    balance_.transfer_began(transfer, now_ns());
  }
}

void DeviceUpdates::transfer_ended(const Move& move, bool moved) {
  if (!has_placed_) {
    return;
  }
  Transfer transfer{.id = move.id, .from = move.from, .to = move.to};
  for (const Move::Part& part : move.parts) {
    transfer.bytes += part.bytes;
    transfer.blocks.push_back(part.block);
  }
  balance_.transfer_ended(transfer, now_ns(), moved);
}

UpdateId DeviceUpdates::begin(Launch launch, std::span<const ProgramOperand> operands,
                              Bytes host_bytes) {
  const UpdateId update = ++last_;
  const LaunchLog::Launched logged =
      log_.launched(hash_launch("update at the host", {}), "update at the host", current_module());
  launch.tag = kTag | update;
  launch.execution = logged.execution;
  UnderWay& it = under_way_[update];
  it.operands.assign(operands.begin(), operands.end());
  it.accesses = launch.accesses;
  it.row = logged.row;
  it.host_bytes = host_bytes;
  const LaunchAdmission admission = engine_.issue_launch(launch);
  assert(admission.state != LaunchState::kTooLarge);
  it.launch = admission.id;
  return update;
}

void DeviceUpdates::released(std::uint64_t tag) {
  ready_.push_back(tag & ~kTag);
  ++running_;
  ready_changed_.notify_one();
}

std::optional<UpdateId> DeviceUpdates::next() {
  if (ready_.empty()) {
    return std::nullopt;
  }
  const UpdateId update = ready_.front();
  ready_.pop_front();
  ++named_;
  under_way_.at(update).begun_ns = now_ns();
  return update;
}

// Blocks that follow each other in host memory are one extent. The program may have freed the
// memory by now: its addresses are nobody else's before the end.
std::vector<Extents> DeviceUpdates::extents(UpdateId update, const ProgramMemory& memory,
                                            const HostMemory& host) const {
  std::vector<Extents> all;
  const UnderWay& it = under_way_.at(update);
  auto next = it.accesses.begin();
  for (const ProgramOperand& operand : it.operands) {
    Extents& extents = all.emplace_back();
    const CudaOperand named = on_device(operand);
    const std::uint64_t end = named.address + named.bytes;
    for (Bytes found_bytes = 0; found_bytes < named.bytes; ++next) {
      const Access& access = *next;
      found_bytes += access.to_bytes - access.from_bytes;
      for (BlockId id = access.first_block; id < access.first_block + access.block_count; ++id) {
        std::uint64_t at = memory.address_of(id);
        for (const Run& run : host_ranges_.of(id)) {
          const std::uint64_t from = std::max(at, named.address);
          const std::uint64_t to = std::min(at + run.bytes, end);
          char* const start = host.at(run.at) + (from - at);
          at += run.bytes;
          if (from >= to) {
            continue;
          }
          if (!extents.empty() && extents.back().at + extents.back().bytes == start) {
            extents.back().bytes += to - from;
          } else {
            extents.push_back({.at = start, .bytes = to - from});
          }
        }
      }
    }
  }
  return all;
}

void DeviceUpdates::end(UpdateId update) {
  const auto found = under_way_.find(update);
  if (EventLog* const events = log_.events()) {
    events->launch_began(kLine, found->second.row, log_.name_of(found->second.row),
                         found->second.begun_ns);
    events->launch_ended(kLine, now_ns());
  }
  if (found->second.host_bytes > 0) {
    balance_.update_ended(found->second.host_bytes, now_ns() - found->second.begun_ns);
  }
  const LaunchId launch = found->second.launch;
  under_way_.erase(found);
  --running_;
  --named_;
  engine_.end_launch(launch);
}

}  // namespace spillway::cuda
