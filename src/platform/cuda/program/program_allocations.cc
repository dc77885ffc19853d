// Allocations of the program: made, freed, retired and used again. See program_allocations.h.
#include "platform/cuda/program/program_allocations.h"

#include <algorithm>

#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"

namespace spillway::cuda {

std::optional<AddressRange> ProgramAllocations::allocation_of(std::uint64_t address) const {
  return state_.memory->allocation_of(address);
}

bool ProgramAllocations::may_be_again(std::uint64_t address) const {
  return state_.memory->may_be_again(address);
}

void ProgramAllocations::pointed_at(std::span<const std::uint64_t> words, PointedAt* found) const {
  state_.memory->pointed_at(words, found);
}

bool ProgramAllocations::contains(std::uint64_t address) const {
  return state_.memory->contains(address);
}

AddressRange ProgramAllocations::addresses() const { return state_.memory->addresses(); }

// Small allocations share frames, which may be nearly empty: so what has been counted here as
// alive must leave room as well.
bool ProgramAllocations::recycles_unannounced(Bytes bytes) const {
  constexpr Bytes kFreePart = 16;
  const Bytes budget_bytes = state_.budget_bytes.load(std::memory_order_relaxed);
  const Bytes with_placed_bytes = bytes + state_.memory->living_placed_bytes();
  return state_.bypass.calls().is_open() && std::max(with_placed_bytes, parts_.host.live_bytes()) <=
                                                budget_bytes - budget_bytes / kFreePart;
}

Result<std::uint64_t> ProgramAllocations::allocate(Bytes bytes) {
  const Lock lock(state_);
  parts_.host.look_for_room(bytes);
  parts_.updates.let_updates_end(bytes);
  newest_stays();
  Result<std::uint64_t> address = state_.memory->allocate(bytes);
  if (address) {
    state_.bypass.lives(state_.memory->number_of(*address));
  }
  if (!state_.memory->may_undo()) {
    parts_.host.want_host();
  }
  if (address) {
    parts_.recompute.born(state_.memory->number_of(*address));
  }
  return address;
}

void ProgramAllocations::free(std::uint64_t address) {
  const Lock lock(state_);
  parts_.recompute.before_death(address, false, std::nullopt);
  if (const std::optional<AllocationId> freed = state_.memory->free(address)) {
    state_.recomputing.dies(*freed);
    parts_.exports.end_export(*freed);
    state_.bypass.freed(*freed);
    state_.engine.free(*freed);
    state_.bypass.open_calls();
    if (state_.memory->has_reserved()) {
      keep_handles();
    }
  }
}

// What is settled launches may use of which nobody was told.
bool ProgramAllocations::undo_allocate(std::uint64_t address) {
  const Lock lock(state_);
  if (!state_.memory->may_undo() ||
      !state_.bypass.is_unsettled(state_.memory->number_of(address))) {
    return false;
  }
  const std::optional<AllocationId> undone = state_.memory->undo_allocate(address);
  if (!undone) {
    return false;
  }
  state_.recomputing.dies(*undone);
  state_.bypass.freed(*undone);
  state_.engine.free(*undone);
  state_.bypass.open_calls();
  return true;
}

// From here on it counts as having been alive.
void ProgramAllocations::newest_stays() {
  if (state_.memory->may_undo()) {
    state_.memory->no_undo();
    parts_.host.want_host();
  }
}

void ProgramAllocations::newest_stays_if_among(std::span<const Access> accesses) {
  if (std::any_of(accesses.begin(), accesses.end(), [this](const Access& access) {
        return state_.memory->is_newest(access.allocation);
      })) {
    newest_stays();
  }
}

void ProgramAllocations::retire(std::uint64_t address, std::optional<CuStream> next_on) {
  retire(address, next_on, false);
}

void ProgramAllocations::retire_keeping_room(std::uint64_t address,
                                             std::optional<CuStream> next_on) {
  retire(address, next_on, true);
}

void ProgramAllocations::retire(std::uint64_t address, std::optional<CuStream> next_on,
                                bool keeps_room) {
  const Lock lock(state_);
  parts_.recompute.before_death(address, true, next_on);
  // Before what lives for one launch dies unsettled, each time anew.
  state_.bypass.settle_those_ready();
  const std::optional<AllocationId> retired = state_.memory->retire(address, keeps_room);
  if (!retired) {
    return;
  }
  state_.recomputing.dies(*retired);
  if (state_.bypass.retired(*retired)) {
    state_.engine.discard(*retired, DiscardMode::kLazy);
    state_.bypass.open_calls();
  }
}

Status ProgramAllocations::reuse(std::uint64_t address) {
  const Lock lock(state_);
  parts_.host.look_for_room(state_.memory->dead_bytes_at(address));
  parts_.updates.let_updates_end(state_.memory->dead_bytes_at(address));
  newest_stays();
  const Result<std::optional<AllocationId>> reused = state_.memory->reuse(address);
  if (!reused) {
    return tl::unexpected<Error>(reused.error());
  }
  const std::optional<AllocationId> again = *reused;
  if (again) {
    state_.bypass.lives(*again);
  }
  parts_.host.want_host();
  if (again) {
    parts_.recompute.born(*again);
  }
  return {};
}

// Who says so does not know of what the program places itself.
void ProgramAllocations::keep_at_most(Bytes bytes) {
  heap_keeps_bytes_ = bytes;
  keep_handles();
}

void ProgramAllocations::keep_handles() {
  Bytes bytes = heap_keeps_bytes_;
  bytes += std::min(state_.memory->placed_bytes(), ~bytes);
  state_.queue->keep_at_most(bytes);
  if (state_.queue->handle_bytes() > bytes) {
    state_.queue->push({.kind = DriverCommand::Kind::kTrim});
  }
}

}  // namespace spillway::cuda
