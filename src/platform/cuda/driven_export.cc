// Memory that other processes use. See driven_platform.h; docs/interposer.md.
#include <optional>

#include "platform/cuda/driven_program_thread.h"
#include "platform/cuda/driver/exporting.h"

namespace spillway::cuda {
namespace {

// Of the budget; launches need the rest.
constexpr Bytes kMostExported = 3;
constexpr Bytes kOfParts = 4;

}  // namespace

std::optional<std::uint64_t> DrivenPlatform::exported(std::uint64_t address) const {
  const Lock lock(mutex_);
  return exports_.number_of(memory_->number_of(address));
}

Bytes DrivenPlatform::unfixed_bytes_of(AllocationId id) const {
  const Allocation& allocation = engine_.space().allocation(id);
  Bytes bytes = 0;
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const Block& block = engine_.space().block(allocation.first_block + i);
    bytes += block.fixed == 0 ? block.bytes : 0;
  }
  return bytes;
}

Status DrivenPlatform::room_to_export(AllocationId id) const {
  const Bytes bytes = unfixed_bytes_of(id);
  const Bytes most_bytes = budget_bytes_ / kOfParts * kMostExported;
  if (engine_.fixed_bytes() + bytes > most_bytes) {
    return make_error(ErrorCode::kUnsupported,
                      "no room for another {} of device memory that other processes share: they "
                      "have {}, and at most three quarters of the budget of {} stay on the device "
                      "for them; raise --device-memory",
                      format_bytes(bytes), format_bytes(engine_.fixed_bytes()),
                      format_bytes(budget_bytes_));
  }
  return {};
}

// What has been freed stays until the last launch that uses it has ended.
Status DrivenPlatform::may_export(std::uint64_t address) {
  Lock lock(mutex_);
  const AllocationId id = memory_->number_of(address);
  Status room;
  wait_until([&]() SPILLWAY_REQUIRES(mutex_) {
    room = room_to_export(id);
    return room.has_value() || engine_.fixed_allocations() == exports_.size();
  });
  return room;
}

// The call that uses it keeps all of it where it is meanwhile.
Result<std::uint64_t> DrivenPlatform::export_memory(std::uint64_t address) {
  Lock lock(mutex_);
  const AllocationId id = memory_->number_of(address);
  if (const Status room = room_to_export(id); !room) {
    return tl::unexpected<Error>(room.error());
  }
  const Allocation& allocation = engine_.space().allocation(id);
  bool on_device = bypass_.is_whole(id);
  for (std::uint32_t i = 0; i < allocation.block_count && on_device; ++i) {
    on_device = queue_->lend(allocation.first_block + i) != 0;
  }
  if (!on_device) {
    return make_error(ErrorCode::kUnsupported,
                      "memory for another process has no room on the device, of which {} are the "
                      "budget; raise --device-memory",
                      format_bytes(budget_bytes_));
  }
  newest_stays();
  // Launches that wait may have counted on more than what is left: they are as those that are
  // larger than the budget, until they have ended.
  Status fixed = engine_.fix(id);
  if (!fixed &&
      engine_.set_device_capacity(engine_.capacity_bytes(Tier::kDevice) + unfixed_bytes_of(id))) {
    fixed = engine_.fix(id);
  }
  if (!fixed) {
    return tl::unexpected<Error>(fixed.error());
  }
  const std::uint64_t number = exports_.add(id);
  lock.unlock();
  divide(address);  // what it holds is no longer what a launch has made
  return number;
}

void DrivenPlatform::end_export(AllocationId id) {
  exports_.remove(id);
  mutex_.wait(changed_, [&]() SPILLWAY_REQUIRES(mutex_) { return !exports_.is_handed_out(id); });
}

Result<CudaPlatform::ExportedPiece> DrivenPlatform::exported_piece(std::uint64_t number,
                                                                   std::uint32_t piece) {
  Lock lock(mutex_);
  mutex_.wait(changed_, [&]() SPILLWAY_REQUIRES(mutex_) { return !exports_.hands_out(); });
  const std::optional<AllocationId> found = exports_.find(number);
  if (!found) {
    return make_error(ErrorCode::kInvalidInput, "the memory has been freed");
  }
  const Allocation& allocation = engine_.space().allocation(*found);
  if (piece >= allocation.block_count) {
    return make_error(ErrorCode::kInvalidInput, "the memory has no such piece");
  }
  const BlockId block = allocation.first_block + piece;
  ExportedPiece exported{.memory = {},
                         .bytes = bytes_of(block),
                         .all_bytes = allocation.frame_bytes,
                         .offset_bytes = allocation.packed ? allocation.offset_bytes : 0};
  const CuMemHandle handle = queue_->lend(block);
  exports_.hand_out(*found);
  lock.unlock();
  int descriptor = -1;
  // The program's context may have ended since.
  const CuResult made =
      in_context(queue_->context(), [&] { return descriptor_of(driver_, handle, descriptor); });
  lock.lock();
  exports_.handed_out();
  changed_.notify_all();
  if (const Status done = check(driver_, "cuMemExportToShareableHandle", made); !done) {
    return tl::unexpected<Error>(done.error());
  }
  exported.memory = Descriptor(descriptor);
  return exported;
}

}  // namespace spillway::cuda
