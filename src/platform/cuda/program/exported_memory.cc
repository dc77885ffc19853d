// Memory that other processes use. See exported_memory.h; docs/interposer.md.
#include "platform/cuda/program/exported_memory.h"

#include <optional>

#include "platform/cuda/driver/exporting.h"
#include "platform/cuda/platform_parts.h"
#include "platform/cuda/platform_state.h"

namespace spillway::cuda {
namespace {

// Of the budget; launches need the rest.
constexpr Bytes kMostExported = 3;
constexpr Bytes kOfParts = 4;

}  // namespace

bool ExportedMemory::is_possible() const { return state_.queue->exportable(); }

std::optional<std::uint64_t> ExportedMemory::exported(std::uint64_t address) const {
  const Lock lock(state_);
  return exports_.number_of(state_.memory->number_of(address));
}

Bytes ExportedMemory::unfixed_bytes_of(AllocationId id) const {
  const Allocation& allocation = state_.engine.space().allocation(id);
  Bytes bytes = 0;
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const Block& block = state_.engine.space().block(allocation.first_block + i);
    bytes += block.fixed == 0 ? block.bytes : 0;
  }
  return bytes;
}

Status ExportedMemory::room_to_export(AllocationId id) const {
  const Bytes bytes = unfixed_bytes_of(id);
  const Bytes most_bytes = state_.budget_bytes / kOfParts * kMostExported;
  if (state_.engine.fixed_bytes() + bytes > most_bytes) {
    return make_error(ErrorCode::kUnsupported,
                      "no room for another {} of device memory that other processes share: they "
                      "have {}, and at most three quarters of the budget of {} stay on the device "
                      "for them; raise --device-memory",
                      format_bytes(bytes), format_bytes(state_.engine.fixed_bytes()),
                      format_bytes(state_.budget_bytes));
  }
  return {};
}

// What has been freed stays until the last launch that uses it has ended.
Status ExportedMemory::may_export(std::uint64_t address) {
  const Lock lock(state_);
  const AllocationId id = state_.memory->number_of(address);
  Status room;
  parts_.waits.wait_until([&]() SPILLWAY_REQUIRES(platform_lock) {
    room = room_to_export(id);
    return room.has_value() || state_.engine.fixed_allocations() == exports_.size();
  });
  return room;
}

// The call that uses it keeps all of it where it is meanwhile.
Result<std::uint64_t> ExportedMemory::export_memory(std::uint64_t address) {
  Lock lock(state_);
  const AllocationId id = state_.memory->number_of(address);
  if (const Status room = room_to_export(id); !room) {
    return tl::unexpected<Error>(room.error());
  }
  const Allocation& allocation = state_.engine.space().allocation(id);
  bool on_device = state_.bypass.is_whole(id);
  for (std::uint32_t i = 0; i < allocation.block_count && on_device; ++i) {
    on_device = state_.queue->lend(allocation.first_block + i) != 0;
  }
  if (!on_device) {
    return make_error(ErrorCode::kUnsupported,
                      "memory for another process has no room on the device, of which {} are the "
                      "budget; raise --device-memory",
                      format_bytes(state_.budget_bytes));
  }
  parts_.allocations.newest_stays();
  // Launches that wait may have counted on more than what is left: they are as those that are
  // larger than the budget, until they have ended.
  Status fixed = state_.engine.fix(id);
  if (!fixed && state_.engine.set_device_capacity(state_.engine.capacity_bytes(Tier::kDevice) +
                                                  unfixed_bytes_of(id))) {
    fixed = state_.engine.fix(id);
  }
  if (!fixed) {
    return tl::unexpected<Error>(fixed.error());
  }
  const std::uint64_t number = exports_.add(id);
  lock.unlock();
  parts_.recompute.divide(address);  // what it holds is no longer what a launch has made
  return number;
}

void ExportedMemory::end_export(AllocationId id) {
  exports_.remove(id);
  state_.wait([&]() SPILLWAY_REQUIRES(platform_lock) { return !exports_.is_handed_out(id); });
}

Result<ExportedPiece> ExportedMemory::exported_piece(std::uint64_t number, std::uint32_t piece) {
  const Lock lock(state_);
  state_.wait([&]() SPILLWAY_REQUIRES(platform_lock) { return !exports_.hands_out(); });
  const std::optional<AllocationId> found = exports_.find(number);
  if (!found) {
    return make_error(ErrorCode::kInvalidInput, "the memory has been freed");
  }
  const Allocation& allocation = state_.engine.space().allocation(*found);
  if (piece >= allocation.block_count) {
    return make_error(ErrorCode::kInvalidInput, "the memory has no such piece");
  }
  const BlockId block = allocation.first_block + piece;
  ExportedPiece exported{.memory = {},
                         .bytes = state_.bytes_of(block),
                         .all_bytes = allocation.frame_bytes,
                         .offset_bytes = allocation.packed ? allocation.offset_bytes : 0};
  const CuMemHandle handle = state_.queue->lend(block);
  exports_.hand_out(*found);
  int descriptor = -1;
  // The program's context may have ended since.
  const CuResult made = state_.call_in(
      state_.queue->context(), [&] { return descriptor_of(state_.driver, handle, descriptor); });
  exports_.handed_out();
  state_.changed.notify_all();
  if (const Status done = check(state_.driver, "cuMemExportToShareableHandle", made); !done) {
    return tl::unexpected<Error>(done.error());
  }
  exported.memory = Descriptor(descriptor);
  return exported;
}

void ExportedMemory::share_with(CuDevice device) {
  const Lock lock(state_);
  if (device == state_.options.device) {
    return;
  }
  const std::uint64_t mine = ++shares_;
  state_.queue->push({.kind = DriverCommand::Kind::kShare, .device = device});
  state_.wait(
      [&]() SPILLWAY_REQUIRES(platform_lock) { return shares_done_ >= mine || state_.broken; });
}

}  // namespace spillway::cuda
