// See address_space.h.
#include "platform/host/pages/address_space.h"

#include <algorithm>

#include "platform/common/storage/block_span.h"

namespace spillway::host {

std::optional<AllocationId> AddressSpace::owner_of(const void* address) const {
  if (!contains(address)) {
    return std::nullopt;
  }
  const std::uint64_t block = offset_of(address) / kBlockBytes;
  if (block >= space_->block_slots() || space_->block(static_cast<BlockId>(block)).tenants == 0) {
    return std::nullopt;
  }
  return space_->block(static_cast<BlockId>(block)).allocation;
}

std::optional<AllocationId> AddressSpace::allocation_at(const void* start) const {
  const std::optional<AllocationId> id = owner_of(start);
  const bool starts = id && address_of(space_->allocation(*id).first_block) == start;
  return starts ? id : std::nullopt;
}

std::optional<BlockRange> AddressSpace::blocks_with(const void* start, Bytes bytes) const {
  const std::optional<AllocationId> id = owner_of(start);
  if (!id || bytes == 0) {
    return std::nullopt;
  }
  const Allocation& allocation = space_->allocation(*id);
  const auto from =
      static_cast<Bytes>(static_cast<const char*>(start) - address_of(allocation.first_block));
  if (bytes > allocation.bytes - std::min(from, allocation.bytes)) {
    return std::nullopt;
  }
  const BlockSpan span = spillway::blocks_with(from, bytes);
  return BlockRange{.allocation = *id,
                    .first = allocation.first_block + static_cast<BlockId>(span.first),
                    .count = static_cast<std::uint32_t>(span.count)};
}

std::optional<BlockRange> AddressSpace::blocks_within(const void* start, Bytes bytes) const {
  std::optional<BlockRange> range = blocks_with(start, bytes);
  if (!range) {
    return range;
  }
  const Allocation& allocation = space_->allocation(range->allocation);
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

Bytes AddressSpace::footprint_bytes(AllocationId id) const {
  const Allocation& allocation = space_->allocation(id);
  return (allocation.block_count - Bytes{1}) * kBlockBytes +
         space_->block(allocation.first_block + allocation.block_count - 1).bytes;
}

}  // namespace spillway::host
