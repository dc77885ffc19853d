// What the program itself asks for ahead of need. See program_hints.h; docs/cuda.md, "What the
// program asks for".
#include "platform/cuda/program/program_hints.h"

#include <algorithm>

#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"

namespace spillway::cuda {

// Of a block that others use as well the program has not said that they need it no more: it leaves
// only if at least half of it was meant.
Launch ProgramHints::mostly_meant(const Launch& named) const {
  Launch meant;
  const Space& space = state_.engine.space();
  for (const Access& access : named.accesses) {
    const Allocation& allocation = space.allocation(access.allocation);
    const Bytes each_bytes = space.block(allocation.first_block).bytes;
    Bytes from_bytes = (access.first_block - allocation.first_block) * each_bytes;
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const BlockId id = access.first_block + i;
      const Bytes end_bytes = from_bytes + space.block(id).bytes;
      const Bytes first = std::max(from_bytes, access.from_bytes);
      const Bytes last = std::min(end_bytes, access.to_bytes);
      if (!allocation.packed && last > first && 2 * (last - first) >= space.block(id).bytes) {
        meant.accesses.push_back(
            {.allocation = access.allocation, .first_block = id, .block_count = 1});
      }
      from_bytes = end_bytes;
    }
  }
  return meant;
}

std::optional<Launch> ProgramHints::asked_for(std::uint64_t address, Bytes bytes) const {
  if (!parts_.updates.has_updates()) {
    return std::nullopt;  // where all fits, or the order of issue says nothing
  }
  const ProgramOperand operand{.start = reinterpret_cast<void*>(address),  // NOLINT
                               .bytes = bytes,
                               .mode = AccessMode::kRead};
  return DeviceUpdates::launch_of({&operand, 1}, *state_.memory);
}

bool ProgramHints::prefetch(std::uint64_t address, Bytes bytes) {
  if (!parts_.allocations.contains(address)) {
    return false;
  }
  if (!state_.bypass.calls().is_open()) {
    const Lock lock(state_);
    if (const std::optional<Launch> named = asked_for(address, bytes)) {
      state_.engine.prefetch_behind(*named);
    }
  }
  return true;
}

bool ProgramHints::has_tier(Tier tier) const {
  const Lock lock(state_);
  return state_.engine.capacity_bytes(tier) > 0;
}

bool ProgramHints::pre_evict(std::uint64_t address, Bytes bytes, std::optional<Tier> to) {
  if (!parts_.allocations.contains(address)) {
    return false;
  }
  if (!state_.bypass.calls().is_open()) {
    const Lock lock(state_);
    const std::optional<Launch> named = asked_for(address, bytes);
    if (named && parts_.updates.may_be_at_host(*named)) {
      state_.engine.pre_evict_behind(mostly_meant(*named), to);
    }
  }
  return true;
}

void ProgramHints::send_to_host(std::uint64_t address, Bytes bytes) {
  if (state_.bypass.calls().is_open() || !parts_.allocations.contains(address)) {
    return;
  }
  const Lock lock(state_);
  if (!parts_.updates.has_updates()) {
    return;
  }
  const ProgramOperand operand{.start = reinterpret_cast<void*>(address),  // NOLINT
                               .bytes = bytes,
                               .mode = AccessMode::kRead};
  const std::optional<Launch> used = DeviceUpdates::launch_of({&operand, 1}, *state_.memory);
  if (used && parts_.updates.may_be_at_host(*used)) {
    state_.engine.send_to_host(*used);
  }
}

}  // namespace spillway::cuda
