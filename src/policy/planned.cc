// See planned.h.
#include "policy/planned.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/memory/space.h"
#include "policy/prediction/recorded_iteration.h"

namespace spillway {
Planned::Planned(std::string_view name, const Trace& trace, Plan plan, Tier overflow,
                 Victims victims)
    : name_(name),
      plan_(std::move(plan)),
      overflow_(overflow),
      victims_(victims),
      next_use_(trace),
      allocations_(trace.tensors.size(), kNoAllocation) {}

void Planned::on_allocate(AllocationId id, Control& control) {
  const std::uint64_t tag = control.space().allocation(id).tag;
  if (tag < allocations_.size()) {
    adopt(static_cast<TensorId>(tag), id);
  }
}

void Planned::adopt(TensorId tensor, AllocationId id) {
  if (id >= tenants_.size()) {
    tenants_.resize(id + std::size_t{1}, kNoTensor);
  }
  const TensorId before = std::exchange(tenants_[id], tensor);
  if (before != kNoTensor && allocations_[before] == id) {
    allocations_[before] = kNoAllocation;
  }
  allocations_[tensor] = id;
}

void Planned::bind_operands(const Trace& trace) {
  operands_.clear();
  for (const Kernel& kernel : trace.kernels) {
    std::vector<TensorId>& operands = operands_.emplace_back(kernel.reads);
    std::copy_if(kernel.writes.begin(), kernel.writes.end(), std::back_inserter(operands),
                 [&](TensorId id) { return !reads(kernel, id); });
  }
}

// A tensor keeps its place when another one has it: it will be there again in the next iteration,
// and in between nothing is planned for it.
void Planned::bind(const Launch& launch) {
  const std::vector<TensorId>& operands = operands_[launch.position];
  if (operands.size() != launch.accesses.size()) {
    return;
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    allocations_[operands[i]] = launch.accesses[i].allocation;
  }
}

void Planned::on_launch(const Launch& launch, Control& /*control*/) {
  updated_.used_by(launch);
  if (launch.position < operands_.size()) {
    bind(launch);
  }
  if (launch.position < plan_.before.size()) {
    next_use_.advance(launch.position);
    scan_.reset();
  }
}

void Planned::on_fault(const Launch& /*launch*/, BlockId block, Control& /*control*/) {
  updated_.used(block);
}

void Planned::on_update(UpdateStage stage, const Launch& launch, Control& /*control*/) {
  updated_.hear(stage, launch);
}

void Planned::on_launch_end(const Launch& launch, Control& control) {
  scan_.reset();
  if (launch.position < plan_.before.size()) {
    carry_out((launch.position + std::size_t{1}) % plan_.before.size(), control);
  }
}

// The steps before the kernel at `position`. Frees are the program's to say; allocating ahead is
// prefetching a block that has no contents.
void Planned::carry_out(std::size_t position, Control& control) {
  for (const PlanAction& action : plan_.before[position]) {
    const AllocationId id = allocations_[action.tensor];
    if (id == kNoAllocation || action.step == PlanStep::kFree || !control.space().is_live(id)) {
      continue;
    }
    const Allocation& allocation = control.space().allocation(id);
    for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
      const BlockId block = allocation.first_block + i;
      if (action.step == PlanStep::kPreEvict) {
        control.pre_evict(block, action.to);
      } else if (!updated_.wanted_at_host(block) &&
                 (victims_ == Victims::kOldest || !control.usable(block))) {
        control.prefetch(block);  // of the oldest, what is asked for is the youngest
      }
    }
  }
}

std::optional<BlockId> Planned::select_victim(Cause cause, BlockId incoming,
                                              const Control& control) {
  if (victims_ == Victims::kOldest) {
    return Policy::select_victim(cause, incoming, control);
  }
  if (cause == Cause::kPrefetch) {
    return std::nullopt;  // what was planned to come finds room that was planned to be made
  }
  if (cause == Cause::kFault && control.pre_evicting_bytes(overflow_) > 0) {
    return std::nullopt;  // room comes as planned; anything else would only delay it
  }
  if (!scan_) {
    scan_ = next_use_.order().rbegin();
    scan_block_ = 0;
  }
  for (; *scan_ != next_use_.order().rend(); ++*scan_, scan_block_ = 0) {
    const auto& [use, tensor] = **scan_;
    if (use == next_use_.now()) {
      break;  // from here on it is what the running kernel uses: anything else is better
    }
    const AllocationId id = allocations_[tensor];
    if (id == kNoAllocation || !control.space().is_live(id)) {
      continue;
    }
    const Allocation& allocation = control.space().allocation(id);
    for (; scan_block_ < allocation.block_count; ++scan_block_) {
      const BlockId block = allocation.first_block + scan_block_;
      if (control.evictable(block)) {
        return block;
      }
    }
  }
  return std::nullopt;
}

}  // namespace spillway
