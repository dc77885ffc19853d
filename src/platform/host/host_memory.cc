// The program's memory: what it allocates, discards and wishes for. See host_platform.h.
#include <fmt/format.h>

#include <algorithm>

#include "platform/host/block_span.h"
#include "platform/host/host_platform.h"

namespace spillway::host {
namespace {

// Of the lower tiers, what allocations cannot claim: somewhere for a victim to go first.
constexpr Bytes kExchangeBytes = 16 * kMiB;

}  // namespace

Bytes HostPlatform::footprint_bytes(AllocationId id) const {
  const Allocation& allocation = engine_.space().allocation(id);
  return (allocation.block_count - Bytes{1}) * kBlockBytes +
         bytes_of(allocation.first_block + allocation.block_count - 1);
}

// Every byte that is promised has a place in some tier, so that no later fault runs out of room.
Status HostPlatform::commit(Bytes bytes) {
  const Bytes below_bytes =
      engine_.capacity_bytes(Tier::kHost) + engine_.capacity_bytes(Tier::kStorage);
  const Bytes limit_bytes =
      engine_.capacity_bytes(Tier::kDevice) + below_bytes - std::min(below_bytes, kExchangeBytes);
  if (bytes > limit_bytes || committed_bytes_ > limit_bytes - bytes) {
    return make_error(
        ErrorCode::kUnsupported,
        "out of memory: {} asked for, {} in use; the budget is {} of device memory, {} of host "
        "memory and {} of storage; raise --host-memory or --storage",
        format_bytes(bytes), format_bytes(committed_bytes_),
        format_bytes(engine_.capacity_bytes(Tier::kDevice)),
        format_bytes(engine_.capacity_bytes(Tier::kHost)),
        format_bytes(engine_.capacity_bytes(Tier::kStorage)));
  }
  committed_bytes_ += bytes;
  stats_.live_bytes += bytes;
  stats_.live_peak_bytes = std::max(stats_.live_peak_bytes, stats_.live_bytes);
  return {};
}

void HostPlatform::uncommit(Bytes bytes) {
  committed_bytes_ -= bytes;
  stats_.live_bytes -= bytes;
}

Result<void*> HostPlatform::allocate(Bytes bytes, Fresh fresh) {
  const std::scoped_lock lock(mutex_);
  const Bytes asked_bytes = std::max(bytes, kPageBytes);
  if (const Status room =
          commit(asked_bytes > kTiB * kKiB ? asked_bytes : round_up(asked_bytes, kPageBytes));
      !room) {
    return tl::unexpected<Error>(room.error());
  }
  const Result<AllocationId> id = engine_.allocate(asked_bytes, 0);
  if (!id) {
    uncommit(round_up(asked_bytes, kPageBytes));
    return tl::unexpected<Error>(id.error());
  }
  const Allocation& allocation = engine_.space().allocation(*id);
  const BlockId end = allocation.first_block + allocation.block_count;
  if (offset_of(end) > address_bytes_) {
    uncommit(footprint_bytes(*id));
    engine_.free(*id);
    return make_error(ErrorCode::kUnsupported, "out of address space: {} are reserved",
                      format_bytes(address_bytes_));
  }
  retired_.resize(engine_.space().allocation_slots());
  retired_[*id] = false;
  for (BlockId block = allocation.first_block; block < end; ++block) {
    if (place(block).populated_bytes > 0) {  // touched while it belonged to nobody
      drop_block(block, Tier::kDevice);
    }
    place(block).wants_zeros = fresh == Fresh::kZeros;
  }
  // Who allocates memory is about to use it.
  take_marks();
  engine_.note_accesses(latest_, allocation.first_block, allocation.block_count);
  return address_of(allocation.first_block);
}

std::optional<AllocationId> HostPlatform::owner_of(const void* address) const {
  if (!contains(address)) {
    return std::nullopt;
  }
  const auto offset = static_cast<std::uint64_t>(static_cast<const char*>(address) - base_);
  const std::uint64_t block = offset / kBlockBytes;
  const Space& space = engine_.space();
  if (block >= space.block_slots() || space.block(static_cast<BlockId>(block)).tenants == 0) {
    return std::nullopt;
  }
  return space.block(static_cast<BlockId>(block)).allocation;
}

std::optional<AllocationId> HostPlatform::allocation_at(const void* start) const {
  const std::optional<AllocationId> id = owner_of(start);
  const bool starts = id && address_of(engine_.space().allocation(*id).first_block) == start;
  return starts ? id : std::nullopt;
}

std::optional<HostPlatform::BlockRange> HostPlatform::blocks_with(const void* start,
                                                                  Bytes bytes) const {
  const std::optional<AllocationId> id = owner_of(start);
  if (!id || bytes == 0) {
    return std::nullopt;
  }
  const Allocation& allocation = engine_.space().allocation(*id);
  const auto from =
      static_cast<Bytes>(static_cast<const char*>(start) - address_of(allocation.first_block));
  if (bytes > allocation.bytes - std::min(from, allocation.bytes)) {
    return std::nullopt;
  }
  const BlockSpan span = host::blocks_with(from, bytes);
  return BlockRange{.allocation = *id,
                    .first = allocation.first_block + static_cast<BlockId>(span.first),
                    .count = static_cast<std::uint32_t>(span.count)};
}

// Of those, the ones without other bytes. There may be none.
std::optional<HostPlatform::BlockRange> HostPlatform::blocks_within(const void* start,
                                                                    Bytes bytes) const {
  std::optional<BlockRange> range = blocks_with(start, bytes);
  if (!range) {
    return range;
  }
  const Allocation& allocation = engine_.space().allocation(range->allocation);
  const char* const begin = static_cast<const char*>(start);
  const BlockId last = range->first + range->count - 1;
  const BlockId last_of_all = allocation.first_block + allocation.block_count - 1;
  const char* const end_of_last = last == last_of_all
                                      ? address_of(allocation.first_block) + allocation.bytes
                                      : address_of(last) + kBlockBytes;
  if (begin + bytes < end_of_last) {
    --range->count;
  }
  if (range->count > 0 && begin > address_of(range->first)) {
    ++range->first;
    --range->count;
  }
  return range;
}

Bytes HostPlatform::size_of(const void* start) const {
  const std::scoped_lock lock(mutex_);
  const std::optional<AllocationId> id = allocation_at(start);
  return id ? engine_.space().allocation(*id).bytes : 0;
}

void HostPlatform::free(void* start) {
  const std::scoped_lock lock(mutex_);
  const std::optional<AllocationId> id = allocation_at(start);
  if (!id) {
    return;
  }
  const Allocation allocation = engine_.space().allocation(*id);
  if (!retired_[*id]) {
    uncommit(footprint_bytes(*id));
  }
  record_death(*id);
  engine_.free(*id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    end_waiting(allocation.first_block + i);
  }
}

void HostPlatform::discard(void* start, Bytes bytes, DiscardMode mode) {
  const std::scoped_lock lock(mutex_);
  const std::optional<BlockRange> range = blocks_within(start, bytes);
  if (!range) {
    return;
  }
  if (range->count == engine_.space().allocation(range->allocation).block_count) {
    record_death(range->allocation);
    engine_.discard(range->allocation, mode);
  } else {
    engine_.discard_blocks(range->first, range->count, mode);
  }
}

void HostPlatform::retire(void* start) {
  const std::scoped_lock lock(mutex_);
  const std::optional<AllocationId> id = allocation_at(start);
  if (!id) {
    return;
  }
  retired_[*id] = true;
  record_death(*id);
  uncommit(footprint_bytes(*id));
  engine_.discard(*id, DiscardMode::kLazy);
}

Status HostPlatform::reuse(void* start) {
  const std::scoped_lock lock(mutex_);
  const std::optional<AllocationId> id = allocation_at(start);
  if (!id) {
    return make_error(ErrorCode::kInvalidInput, "no allocation starts at {}", fmt::ptr(start));
  }
  if (Status room = commit(footprint_bytes(*id)); !room) {
    return room;
  }
  retired_[*id] = false;
  engine_.reuse(*id);
  take_marks();
  const Allocation& allocation = engine_.space().allocation(*id);
  engine_.note_accesses(latest_, allocation.first_block, allocation.block_count);
  return {};
}

void HostPlatform::prefetch(void* start, Bytes bytes) {
  const std::scoped_lock lock(mutex_);
  if (const std::optional<BlockRange> range = blocks_with(start, bytes)) {
    engine_.prefetch_blocks(range->first, range->count);
  }
}

void HostPlatform::pre_evict(void* start, Bytes bytes, Tier to) {
  const std::scoped_lock lock(mutex_);
  if (const std::optional<BlockRange> range = blocks_with(start, bytes)) {
    engine_.pre_evict_blocks(range->first, range->count, to);
  }
}

}  // namespace spillway::host
