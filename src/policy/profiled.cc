// See profiled.h.
#include "policy/profiled.h"

#include <algorithm>
#include <utility>

#include "engine/memory/space.h"

namespace spillway {
namespace {

// A program that leaves out up to this part of an iteration is still in it; what was planned for
// the part is caught up on. One that leaves out more is somewhere else.
constexpr std::uint32_t kLeavesOutAtMost = 4;  // a quarter
// How long before a tensor's first use its memory is made ready, and how many launches at most. A
// planned allocation belongs right before that use; on a platform that hears of launches as they
// happen that would be too late.
constexpr TimeNs kReadyAheadNs = 3'000'000;
constexpr std::uint32_t kReadyAheadMost = 8;

// The launch whose end is early enough, for a birth at `birth`.
std::uint32_t ready_after(const Trace& trace, std::uint32_t birth) {
  const auto count = static_cast<std::uint32_t>(trace.kernels.size());
  const std::uint32_t most = std::min(kReadyAheadMost, count);
  TimeNs between_ns = 0;
  std::uint32_t before = 1;
  while (before < most && between_ns < kReadyAheadNs) {
    between_ns += trace.kernels[(birth + count - before) % count].duration_ns;
    ++before;
  }
  return (birth + count - before) % count;
}

// The tensors that are not there when an iteration begins, by the position of their first use.
std::vector<std::vector<TensorId>> births_of(const Trace& trace) {
  std::vector<std::vector<TensorId>> births(trace.kernels.size());
  std::vector<bool> born(trace.tensors.size(), false);
  for (std::uint32_t k = 0; k < trace.kernels.size(); ++k) {
    for (const auto* list : {&trace.kernels[k].reads, &trace.kernels[k].writes}) {
      for (const TensorId id : *list) {
        if (!born[id] && !trace.tensors[id].persistent) {
          births[k].push_back(id);
        }
        born[id] = true;
      }
    }
  }
  return births;
}

}  // namespace

Trace with_room_ahead(Trace trace) {
  const auto births = births_of(trace);
  for (std::uint32_t birth = 0; birth < births.size(); ++birth) {
    const std::uint32_t from = ready_after(trace, birth) + 1;
    if (from < birth) {  // else it begins in the iteration before
      std::vector<TensorId>& uses = trace.kernels[from].writes;
      uses.insert(uses.end(), births[birth].begin(), births[birth].end());
    }
  }
  return trace;
}

void Profiled::follow(const RecordedIteration& iteration, Plan plan, Tier overflow) {
  const Trace& trace = iteration.trace;
  planned_.emplace(name_, trace, std::move(plan), overflow);
  positions_.clear();
  for (std::uint32_t k = 0; k < iteration.executions.size(); ++k) {
    positions_[iteration.executions[k]].push_back(k);
  }
  for (TensorId id = 0; id < trace.tensors.size(); ++id) {
    if (trace.tensors[id].persistent) {
      planned_->adopt(id, iteration.allocations[id]);
    }
  }
  const auto births = births_of(trace);
  births_.assign(births.size(), {});
  ready_after_.assign(births.size(), {});
  for (std::uint32_t k = 0; k < births.size(); ++k) {
    for (const TensorId id : births[k]) {
      births_[k].emplace_back(id, iteration.allocations[id]);
    }
    if (!births[k].empty()) {
      ready_after_[ready_after(trace, k)].push_back(k);
    }
  }
  next_ = 0;
  running_.clear();
  worth_.planned(trace.kernels.size());
  gave_up_ = false;
}

// A kernel that an iteration launches several times is at the next of its places.
std::optional<std::uint32_t> Profiled::position_of(const Launch& launch) const {
  const auto found = positions_.find(launch.execution);
  if (found == positions_.end()) {
    return std::nullopt;
  }
  const std::vector<std::uint32_t>& all = found->second;
  const auto next = std::lower_bound(all.begin(), all.end(), next_);
  return next == all.end() ? all.front() : *next;
}

void Profiled::begin_position(Planned& planned, const Launch& launch, std::uint32_t position,
                              Control& control) {
  adopt_births(planned, position);
  Launch placed = launch;
  placed.position = position;
  planned.on_launch(placed, control);
  next_ = (position + 1) % static_cast<std::uint32_t>(births_.size());
}

void Profiled::end_position(Planned& planned, std::uint32_t position, Control& control) {
  const std::uint32_t after = (position + 1) % static_cast<std::uint32_t>(births_.size());
  if (next_ == after) {
    adopt_births(planned, after);
  }
  Launch ended;
  ended.position = position;
  planned.on_launch_end(ended, control);
  for (const std::uint32_t birth : ready_after_[position]) {
    make_ready(birth, control);
  }
}

void Profiled::adopt_births(Planned& planned, std::uint32_t position) {
  for (const auto& [tensor, id] : births_[position]) {
    planned.adopt(tensor, id);
  }
}

// Memory that is dead and waits to be used again, for what is born at `birth`.
void Profiled::make_ready(std::uint32_t birth, Control& control) {
  for (const auto& [tensor, id] : births_[birth]) {
    if (!control.space().is_live(id)) {
      continue;
    }
    const Allocation& allocation = control.space().allocation(id);
    for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
      if (control.space().block(allocation.first_block + i).retired) {
        control.prefetch(allocation.first_block + i);
      }
    }
  }
}

void Profiled::on_update(UpdateStage stage, const Launch& launch, Control& control) {
  if (planned_) {
    planned_->on_update(stage, launch, control);
  }
}

void Profiled::on_fault(const Launch& launch, BlockId block, Control& control) {
  if (planned_) {
    planned_->on_fault(launch, block, control);
  }
  if (control.space().block(block).contents == Contents::kLive) {
    worth_.stopped();
  }
}

void Profiled::on_launch(const Launch& launch, Control& control) {
  if (worth_.launched()) {
    planned_.reset();
    running_.clear();
    worth_.dropped();
    gave_up_ = true;
  }
  if (!planned_) {
    return;
  }
  const std::optional<std::uint32_t> position = position_of(launch);
  if (!position) {
    return;
  }
  const auto count = static_cast<std::uint32_t>(births_.size());
  if ((*position + count - next_) % count <= count / kLeavesOutAtMost) {
    while (next_ != *position) {
      const std::uint32_t left_out = next_;
      begin_position(*planned_, {}, left_out, control);
      end_position(*planned_, left_out, control);
    }
  }
  begin_position(*planned_, launch, *position, control);
  running_[launch.id] = *position;
}

void Profiled::on_launch_end(const Launch& launch, Control& control) {
  const auto found = running_.find(launch.id);
  if (!planned_ || found == running_.end()) {
    return;
  }
  const std::uint32_t position = found->second;
  running_.erase(found);
  end_position(*planned_, position, control);
}

std::optional<BlockId> Profiled::select_victim(Cause cause, BlockId incoming,
                                               const Control& control) {
  return planned_ ? planned_->select_victim(cause, incoming, control)
                  : paging_.select_victim(cause, incoming, control);
}

Tier Profiled::eviction_tier(BlockId block, const Control& control) {
  return planned_ ? planned_->eviction_tier(block, control) : paging_.eviction_tier(block, control);
}

}  // namespace spillway
