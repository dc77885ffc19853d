// From kernels to launches. See replay.h.
#include "platform/sim/replay.h"

#include <algorithm>
#include <optional>

#include "analysis/vitality.h"
#include "policy/launch_hash.h"

namespace spillway::sim {

Replay::Replay(const Trace& trace, const ReplayOptions& options, Simulator& simulator)
    : trace_(&trace), options_(options), simulator_(&simulator) {}

Status Replay::prepare() {
  const Vitality vitality = analyze_vitality(*trace_);
  allocations_.assign(trace_->tensors.size(), kNoAllocation);
  for (TensorId id = 0; id < trace_->tensors.size(); ++id) {
    if (!vitality.lives[id]) {
      continue;
    }
    const Result<AllocationId> allocation = simulator_->allocate(trace_->tensors[id].bytes, id);
    if (!allocation) {
      return tl::unexpected<Error>(allocation.error());
    }
    allocations_[id] = *allocation;
  }

  const auto access_to = [&](TensorId id, AccessMode mode) {
    const Allocation& allocation = simulator_->engine().space().allocation(allocations_[id]);
    return Access{allocations_[id], allocation.first_block, allocation.block_count, mode};
  };
  ExecutionIds executions;
  deaths_.resize(trace_->kernels.size());
  for (KernelIndex index = 0; index < trace_->kernels.size(); ++index) {
    const Kernel& kernel = trace_->kernels[index];
    Launch launch;
    launch.position = index;
    for (const TensorId id : kernel.reads) {
      const bool written =
          std::find(kernel.writes.begin(), kernel.writes.end(), id) != kernel.writes.end();
      // A tensor whose first use is a read is input that the program has put there.
      const std::optional<TensorLife>& life = vitality.lives[id];
      const bool input = !trace_->tensors[id].persistent && life && life->first_use == index;
      launch.accesses.push_back(
          access_to(id, written || input ? AccessMode::kReadWrite : AccessMode::kRead));
    }
    for (const TensorId id : kernel.writes) {
      if (std::find(kernel.reads.begin(), kernel.reads.end(), id) == kernel.reads.end()) {
        launch.accesses.push_back(access_to(id, AccessMode::kWrite));
      }
    }
    std::vector<LaunchOperand> operands;
    operands.reserve(launch.accesses.size());
    for (const Access& access : launch.accesses) {
      operands.push_back(
          {access.allocation,
           trace_->tensors[simulator_->engine().space().allocation(access.allocation).tag].bytes});
    }
    launch.execution = executions.id_of(hash_launch(kernel.name, operands));
    launches_.push_back(std::move(launch));
  }
  for (TensorId id = 0; id < trace_->tensors.size(); ++id) {
    const std::optional<TensorLife>& life = vitality.lives[id];
    if (life && !trace_->tensors[id].persistent) {
      deaths_[life->last_use].push_back(id);
    }
  }

  for (TensorId id = 0; id < trace_->tensors.size(); ++id) {
    if (trace_->tensors[id].persistent && vitality.lives[id]) {
      Launch fill;
      fill.accesses.push_back(access_to(id, AccessMode::kWrite));
      fill.position = static_cast<std::uint32_t>(trace_->kernels.size());
      if (Status status = launch(fill, 0); !status) {
        return status;
      }
    }
  }
  return {};
}

Status Replay::iterate() {
  stalls_ns_.clear();
  for (KernelIndex index = 0; index < launches_.size(); ++index) {
    const TimeNs start_ns = simulator_->now_ns();
    const TimeNs duration_ns = trace_->kernels[index].duration_ns;
    if (Status status = launch(launches_[index], duration_ns); !status) {
      return status;
    }
    stalls_ns_.push_back(simulator_->now_ns() - start_ns - duration_ns);
    for (std::size_t i = 0; options_.tells_deaths && i < deaths_[index].size(); ++i) {
      simulator_->discard(allocations_[deaths_[index][i]], DiscardMode::kEager);
    }
  }
  return {};
}

Status Replay::launch(const Launch& launch, TimeNs duration_ns) {
  if (simulator_->issue(launch, duration_ns) != LaunchState::kTooLarge) {
    return simulator_->run_until_idle();
  }
  if (!options_.pages) {
    return make_error(ErrorCode::kCannotRun,
                      "kernel {} needs more than the device's {} at once, and without paging it "
                      "cannot run in pieces",
                      launch.position,
                      format_bytes(simulator_->engine().capacity_bytes(Tier::kDevice)));
  }
  return launch_in_pieces(launch, duration_ns);
}

// What paging does to a kernel that is larger than the device: it runs through its operands, and
// they come and go.
Status Replay::launch_in_pieces(const Launch& whole, TimeNs duration_ns) {
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
  const auto flush = [&]() -> Status {
    done += bytes;
    const auto until_ns = static_cast<TimeNs>(
        static_cast<double>(duration_ns) * static_cast<double>(done) / static_cast<double>(total));
    if (simulator_->issue(piece, until_ns - spent_ns) == LaunchState::kTooLarge) {
      return make_error(ErrorCode::kCannotRun, "a device of {} cannot hold two blocks",
                        format_bytes(engine.capacity_bytes(Tier::kDevice)));
    }
    spent_ns = until_ns;
    piece.accesses.clear();
    bytes = 0;
    return simulator_->run_until_idle();
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

}  // namespace spillway::sim
