// Addresses that the program reserves, and memory that it places there. See placed_memory.h.
#include "platform/cuda/program/placed_memory.h"

#include <utility>

#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"

namespace spillway::cuda {
namespace {

// The run is ending: nothing goes any more.
tl::unexpected<Error> still_in_use() {
  return make_error(ErrorCode::kUnsupported, "memory that was freed is still in use");
}

}  // namespace

bool PlacedMemory::has_reserved() const { return state_.memory->has_reserved(); }

std::vector<AddressRange> PlacedMemory::allocations_in(std::uint64_t address, Bytes bytes) const {
  return state_.memory->allocations_in(address, bytes);
}

std::vector<AddressRange> PlacedMemory::allocations_beside(std::uint64_t address,
                                                           const AddressRange& among) const {
  return state_.memory->allocations_beside(address, among);
}

std::vector<AddressRange> PlacedMemory::all_beside(std::uint64_t address) const {
  return allocations_beside(address, state_.memory->addresses());
}

std::optional<std::uint64_t> PlacedMemory::reserve(Bytes bytes, Bytes alignment) {
  const Lock lock(state_);
  return state_.memory->reserve(bytes, alignment);
}

void PlacedMemory::give_back_reserved(std::uint64_t start) {
  const Lock lock(state_);
  state_.memory->give_back_reserved(start);
}

Status PlacedMemory::promise(Bytes bytes) {
  const Lock lock(state_);
  parts_.host.look_for_room(bytes);
  parts_.updates.let_updates_end(bytes);
  parts_.allocations.newest_stays();
  Status promised = state_.memory->promise_placed(bytes);
  parts_.allocations.keep_handles();
  parts_.host.want_host();
  return promised;
}

void PlacedMemory::take_back_promise(Bytes bytes) {
  const Lock lock(state_);
  state_.memory->take_back_promise(bytes);
  parts_.allocations.keep_handles();
}

// What has been freed there goes when the launches that use it have ended, and that has been
// carried out.
Status PlacedMemory::allocate_at(std::uint64_t address, Bytes bytes) {
  const Lock lock(state_);
  parts_.allocations.newest_stays();
  parts_.waits.wait_until(
      [&]() SPILLWAY_REQUIRES(platform_lock) { return state_.memory->is_free(address, bytes); });
  if (!state_.memory->is_free(address, bytes)) {
    return still_in_use();
  }
  const Result<AllocationId> id = state_.memory->allocate_at(address, bytes);
  if (!id) {
    return tl::unexpected<Error>(id.error());
  }
  state_.bypass.lives(*id);
  parts_.host.want_host();
  parts_.recompute.born(*id);
  return {};
}

void PlacedMemory::wait_until_free(std::uint64_t address, Bytes bytes) {
  const Lock lock(state_);
  parts_.waits.wait_until(
      [&]() SPILLWAY_REQUIRES(platform_lock) { return state_.memory->is_free(address, bytes); });
}

void PlacedMemory::hide(std::uint64_t address) {
  const Lock lock(state_);
  state_.memory->set_hidden(address, true);
}

void PlacedMemory::show(std::uint64_t address) {
  const Lock lock(state_);
  state_.memory->set_hidden(address, false);
}

// No launch that names it is issued and not ended, and nothing is on its way to or from the device.
bool PlacedMemory::is_at_rest(AllocationId id) const {
  const Allocation& allocation = state_.engine.space().allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const BlockId at = allocation.first_block + i;
    const Block& block = state_.engine.space().block(at);
    if (block.pins > 0 || block.first_claim != kNoIndex || block.transfer != kNoIndex ||
        state_.backing.is_coming(at)) {
      return false;
    }
  }
  return true;
}

// To the engine nothing has happened: its blocks are where they were, and those that are on the
// device have their memory again when it has been mapped there.
Result<std::uint64_t> PlacedMemory::move(std::uint64_t address, std::optional<std::uint64_t> to) {
  const Lock lock(state_);
  parts_.allocations.newest_stays();
  const AllocationId id = state_.memory->number_of(address);
  const Bytes bytes = state_.engine.space().allocation(id).frame_bytes;
  const auto may_move = [&]() SPILLWAY_REQUIRES(platform_lock) {
    return (!to || state_.memory->is_free(*to, bytes)) && is_at_rest(id);
  };
  state_.bypass.end_ordered_with(id);
  parts_.waits.wait_until([&]() SPILLWAY_REQUIRES(platform_lock) {
    state_.bypass.leave();
    return may_move();
  });
  if (!may_move()) {
    return still_in_use();
  }
  const std::optional<ProgramMemory::Freed> before = state_.memory->move(address, to);
  if (!before) {
    return make_error(ErrorCode::kUnsupported, "out of address space");
  }
  for (std::uint32_t i = 0; i < before->block_count; ++i) {
    const BlockId block = before->first_block + i;
    if (state_.backing.end_kept(block)) {
      state_.queue->push({.kind = DriverCommand::Kind::kDrop, .block = block});
    } else if (state_.backing.is_there(block)) {
      state_.queue->push({.kind = DriverCommand::Kind::kBack,
                          .block = block,
                          .address = state_.memory->address_of(block),
                          .bytes = state_.bytes_of(block),
                          .serial = state_.backing.order(block)});
    }
  }
  parts_.mechanism.forget_run(*before);
  return state_.memory->address_of(before->first_block);
}

}  // namespace spillway::cuda
