// Addresses that the program reserves, and memory that it places there. See driven_platform.h.
#include <utility>

#include "platform/cuda/driven_platform.h"

namespace spillway::cuda {
namespace {

// The run is ending: nothing goes any more.
tl::unexpected<Error> still_in_use() {
  return make_error(ErrorCode::kUnsupported, "memory that was freed is still in use");
}

}  // namespace

std::optional<std::uint64_t> DrivenPlatform::reserve(Bytes bytes, Bytes alignment) {
  const Lock lock(mutex_);
  return memory_->reserve(bytes, alignment);
}

void DrivenPlatform::give_back_reserved(std::uint64_t start) {
  const Lock lock(mutex_);
  memory_->give_back_reserved(start);
}

Status DrivenPlatform::promise(Bytes bytes) {
  Lock lock(mutex_);
  look_for_room(bytes);
  let_updates_end(bytes);
  newest_stays();
  Status promised = memory_->promise_placed(bytes);
  keep_handles();
  want_host();
  return promised;
}

void DrivenPlatform::take_back_promise(Bytes bytes) {
  const Lock lock(mutex_);
  memory_->take_back_promise(bytes);
  keep_handles();
}

// What has been freed there goes when the launches that use it have ended, and that has been
// carried out.
Status DrivenPlatform::allocate_at(std::uint64_t address, Bytes bytes) {
  Lock lock(mutex_);
  newest_stays();
  wait_until([&]() SPILLWAY_REQUIRES(mutex_) { return memory_->is_free(address, bytes); });
  if (!memory_->is_free(address, bytes)) {
    return still_in_use();
  }
  const Result<AllocationId> id = memory_->allocate_at(address, bytes);
  if (!id) {
    return tl::unexpected<Error>(id.error());
  }
  bypass_.lives(*id);
  want_host();
  born(*id);
  return {};
}

void DrivenPlatform::wait_until_free(std::uint64_t address, Bytes bytes) {
  Lock lock(mutex_);
  wait_until([&]() SPILLWAY_REQUIRES(mutex_) { return memory_->is_free(address, bytes); });
}

void DrivenPlatform::hide(std::uint64_t address) {
  const Lock lock(mutex_);
  memory_->set_hidden(address, true);
}

void DrivenPlatform::show(std::uint64_t address) {
  const Lock lock(mutex_);
  memory_->set_hidden(address, false);
}

// No launch that names it is issued and not ended, and nothing is on its way to or from the device.
bool DrivenPlatform::is_at_rest(AllocationId id) const {
  const Allocation& allocation = engine_.space().allocation(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    const BlockId at = allocation.first_block + i;
    const Block& block = engine_.space().block(at);
    if (block.pins > 0 || block.first_claim != kNoIndex || block.transfer != kNoIndex ||
        backing_.is_coming(at)) {
      return false;
    }
  }
  return true;
}

// To the engine nothing has happened: its blocks are where they were, and those that are on the
// device have their memory again when it has been mapped there.
Result<std::uint64_t> DrivenPlatform::move(std::uint64_t address, std::optional<std::uint64_t> to) {
  Lock lock(mutex_);
  newest_stays();
  const AllocationId id = memory_->number_of(address);
  const Bytes bytes = engine_.space().allocation(id).frame_bytes;
  const auto may_move = [&]() SPILLWAY_REQUIRES(mutex_) {
    return (!to || memory_->is_free(*to, bytes)) && is_at_rest(id);
  };
  bypass_.end_ordered_with(id);
  wait_until([&]() SPILLWAY_REQUIRES(mutex_) {
    bypass_.leave();
    return may_move();
  });
  if (!may_move()) {
    return still_in_use();
  }
  const std::optional<ProgramMemory::Freed> before = memory_->move(address, to);
  if (!before) {
    return make_error(ErrorCode::kUnsupported, "out of address space");
  }
  for (std::uint32_t i = 0; i < before->block_count; ++i) {
    const BlockId block = before->first_block + i;
    if (backing_.end_kept(block)) {
      queue_->push({.kind = DriverCommand::Kind::kDrop, .block = block});
    } else if (backing_.is_there(block)) {
      queue_->push({.kind = DriverCommand::Kind::kBack,
                    .block = block,
                    .address = memory_->address_of(block),
                    .bytes = bytes_of(block),
                    .serial = backing_.order(block)});
    }
  }
  forget_run(*before);
  return memory_->address_of(before->first_block);
}

}  // namespace spillway::cuda
