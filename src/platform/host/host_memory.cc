// See host_memory.h.
#include "platform/host/host_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>

namespace spillway::host {

std::array<Bytes, kTierCount> HostMemory::capacity_bytes() const {
  return {engine_.capacity_bytes(Tier::kDevice), engine_.capacity_bytes(Tier::kHost),
          engine_.capacity_bytes(Tier::kStorage)};
}

Result<void*> HostMemory::allocate(Bytes bytes, Bytes most_bytes, ProgramPlatform::Fresh fresh) {
  const auto whole_pages = [](Bytes some) {
    return some > kTiB * kKiB ? some : round_up(some, kPageBytes);
  };
  const Bytes promised = whole_pages(std::max(bytes, kPageBytes));
  if (const Status room = commitment_.promise(promised, capacity_bytes()); !room) {
    return tl::unexpected<Error>(room.error());
  }
  const Bytes taken_bytes =
      most_bytes > bytes ? whole_pages(most_bytes) : std::max(bytes, kPageBytes);
  const Result<AllocationId> id = engine_.allocate(taken_bytes, 0);
  if (!id) {
    commitment_.take_back(promised);
    return tl::unexpected<Error>(id.error());
  }
  const Allocation& allocation = engine_.space().allocation(*id);
  const BlockId end = allocation.first_block + allocation.block_count;
  if (AddressSpace::offset_of(end) > addresses_.bytes()) {
    commitment_.take_back(promised);
    engine_.free(*id);
    return make_error(ErrorCode::kUnsupported, "out of address space: {} are reserved",
                      format_bytes(addresses_.bytes()));
  }
  retired_.resize(engine_.space().allocation_slots());
  retired_[*id] = false;
  for (BlockId block = allocation.first_block; block < end; ++block) {
    pages_.renew(block, engine_.space().block(block).bytes,
                 fresh == ProgramPlatform::Fresh::kZeros);
  }
  if (most_bytes > bytes) {
    room_bytes_[*id] = addresses_.footprint_bytes(*id) - promised;
  }
  take_frames(frames_of(*id));
  launches_.about_to_use(allocation.first_block, blocks_in_use(*id));
  return addresses_.address_of(allocation.first_block);
}

// Without what it may yet grow into.
Bytes HostMemory::used_bytes(AllocationId id) const {
  const auto room = room_bytes_.find(id);
  return addresses_.footprint_bytes(id) - (room == room_bytes_.end() ? 0 : room->second);
}

std::uint32_t HostMemory::blocks_in_use(AllocationId id) const {
  return static_cast<std::uint32_t>(round_up(used_bytes(id), kBlockBytes) / kBlockBytes);
}

Status HostMemory::grow(void* start, Bytes bytes) {
  const std::optional<AllocationId> id = addresses_.allocation_at(start);
  if (!id || !room_bytes_.contains(*id) || given_up_bytes_.contains(*id) ||
      in_part_.contains(*id)) {
    return make_error(ErrorCode::kUnsupported, "there is no room to grow");
  }
  const auto room = room_bytes_.find(*id);
  const Bytes wanted_bytes = round_up(bytes, kPageBytes);
  if (wanted_bytes <= used_bytes(*id)) {
    return {};
  }
  const Bytes more_bytes = wanted_bytes - used_bytes(*id);
  if (more_bytes > room->second) {
    return make_error(ErrorCode::kUnsupported, "there is no room to grow");
  }
  Status promised = commitment_.promise(more_bytes, capacity_bytes());
  if (promised) {
    const Bytes before_bytes = frames_of(*id);
    room->second -= more_bytes;
    take_frames(frames_of(*id) - before_bytes);
  }
  return promised;
}

Bytes HostMemory::size_of(const void* start) const {
  const std::optional<AllocationId> id = addresses_.allocation_at(start);
  return id ? engine_.space().allocation(*id).bytes : 0;
}

void HostMemory::free(void* start) {
  const std::optional<AllocationId> id = addresses_.allocation_at(start);
  if (!id) {
    return;
  }
  const Allocation allocation = engine_.space().allocation(*id);
  if (!retired_[*id]) {
    commitment_.take_back(promised_bytes(*id));
    frames_bytes_ -= frames_of(*id);
  }
  if (given_up_bytes_.erase(*id) > 0) {
    // For whoever comes next.
    ::mprotect(start, allocation.block_count * kBlockBytes, PROT_READ | PROT_WRITE);
  }
  room_bytes_.erase(*id);
  in_part_.erase(*id);
  launches_.record_death(*id);
  engine_.free(*id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    threads_.end(allocation.first_block + i);
  }
}

void HostMemory::discard(void* start, Bytes bytes, DiscardMode mode) {
  const std::optional<BlockRange> range = addresses_.blocks_within(start, bytes);
  if (!range) {
    return;
  }
  if (range->count == engine_.space().allocation(range->allocation).block_count) {
    launches_.record_death(range->allocation);
    engine_.discard(range->allocation, mode);
  } else {
    engine_.discard_blocks(range->first, range->count, mode);
  }
}

void HostMemory::retire(void* start) {
  const std::optional<AllocationId> id = addresses_.allocation_at(start);
  if (!id || retired_[*id]) {
    return;
  }
  retired_[*id] = true;
  launches_.record_death(*id);
  commitment_.take_back(promised_bytes(*id));
  frames_bytes_ -= frames_of(*id);
  if (in_part_.erase(*id) > 0) {
    room_bytes_.erase(*id);
  }
  engine_.discard(*id, DiscardMode::kLazy);
}

Status HostMemory::reuse(void* start) {
  const std::optional<AllocationId> id = addresses_.allocation_at(start);
  if (!id) {
    return make_error(ErrorCode::kInvalidInput, "no allocation starts at {}", fmt::ptr(start));
  }
  if (!retired_[*id]) {
    return {};
  }
  if (Status room = commitment_.promise(promised_bytes(*id), capacity_bytes()); !room) {
    return room;
  }
  retired_[*id] = false;
  take_frames(frames_of(*id));
  const Allocation& allocation = engine_.space().allocation(*id);
  engine_.reuse(*id, in_part_.contains(*id) ? blocks_in_use(*id) : allocation.block_count);
  launches_.about_to_use(allocation.first_block, blocks_in_use(*id));
  return {};
}

Status HostMemory::reuse_first(void* start, Bytes bytes) {
  const std::optional<AllocationId> id = addresses_.allocation_at(start);
  if (!id || !retired_[*id] || room_bytes_.contains(*id) || given_up_bytes_.contains(*id)) {
    return reuse(start);
  }
  const Bytes all_bytes = addresses_.footprint_bytes(*id);
  room_bytes_[*id] = all_bytes - std::min(all_bytes, round_up(bytes, kPageBytes));
  in_part_.insert(*id);
  Status reused = reuse(start);
  if (!reused) {
    room_bytes_.erase(*id);
    in_part_.erase(*id);
  }
  return reused;
}

bool HostMemory::ready_for_reuse(const void* start, Bytes bytes) const {
  const std::optional<AllocationId> retired = addresses_.allocation_at(start);
  const std::optional<BlockRange> range = addresses_.blocks_with(start, bytes);
  if (!retired || !retired_[*retired] || !range || addresses_had_better_repeat()) {
    return false;
  }
  for (BlockId id = range->first; id < range->first + range->count; ++id) {
    const Block& block = engine_.space().block(id);
    if (!block.copies.has(Tier::kDevice) || block.transfer != kNoIndex) {
      return false;
    }
  }
  return true;
}

void HostMemory::provide(void* start) {
  if (const std::optional<AllocationId> id = addresses_.allocation_at(start)) {
    engine_.provide(*id);
  }
}

Bytes HostMemory::promised_bytes(AllocationId id) const {
  const auto given_up = given_up_bytes_.find(id);
  return used_bytes(id) - (given_up == given_up_bytes_.end() ? 0 : given_up->second);
}

// The last block that is in use counts as a whole.
Bytes HostMemory::frames_of(AllocationId id) const {
  const Bytes whole_bytes =
      std::min(round_up(used_bytes(id), kBlockBytes), addresses_.footprint_bytes(id));
  const auto given_up = given_up_bytes_.find(id);
  return whole_bytes - (given_up == given_up_bytes_.end() ? 0 : given_up->second);
}

void HostMemory::take_frames(Bytes bytes) {
  frames_bytes_ += bytes;
  frames_peak_bytes_ = std::max(frames_peak_bytes_, frames_bytes_);
}

void HostMemory::clear(void* start, Bytes bytes, UndisturbedMutex& mutex,
                       std::condition_variable& moved) {
  if (const std::optional<BlockRange> range = addresses_.blocks_within(start, bytes)) {
    clear(*range, mutex, moved);
  }
}

// What moves has to arrive first: its source must stay until then. What is there would still show
// what it held.
void HostMemory::clear(const BlockRange& range, UndisturbedMutex& mutex,
                       std::condition_variable& moved) {
  constexpr std::chrono::milliseconds kLookAgain{1};
  engine_.discard_blocks(range.first, range.count, DiscardMode::kEager);
  for (BlockId id = range.first; id < range.first + range.count; ++id) {
    while (engine_.space().block(id).transfer != kNoIndex) {
      mutex.wait_for(moved, kLookAgain);
    }
    pages_.clear(id, engine_.space().block(id).bytes);
  }
}

void HostMemory::give_up(void* start, Bytes bytes, UndisturbedMutex& mutex,
                         std::condition_variable& moved) {
  const std::optional<BlockRange> touched = addresses_.blocks_with(start, bytes);
  if (!touched) {
    return;
  }
  const AllocationId id = touched->allocation;
  const Allocation allocation = engine_.space().allocation(id);
  const char* const begin = addresses_.address_of(allocation.first_block);
  const auto from = static_cast<Bytes>(static_cast<const char*>(start) - begin);
  // The last block in use is shorter, and what it might have grown into is nobody's.
  const Bytes used = used_bytes(id);
  const Bytes end =
      from + bytes < used ? from + bytes : std::min(round_up(used, kBlockBytes), allocation.bytes);
  const std::optional<BlockRange> range = addresses_.blocks_within(start, end - from);
  if (!range || range->count == 0) {
    return;
  }
  clear(*range, mutex, moved);
  const Bytes first = (range->first - allocation.first_block) * kBlockBytes;
  const Bytes given_up_bytes = std::min(first + range->count * kBlockBytes, used) - first;
  ::mprotect(addresses_.address_of(range->first), range->count * kBlockBytes, PROT_NONE);
  const Bytes before_bytes = frames_of(id);
  given_up_bytes_[id] += given_up_bytes;
  frames_bytes_ -= before_bytes - frames_of(id);
  commitment_.take_back(given_up_bytes);
}

void HostMemory::prefetch(void* start, Bytes bytes) {
  if (const std::optional<BlockRange> range = addresses_.blocks_with(start, bytes)) {
    engine_.prefetch_blocks(range->first, range->count);
  }
}

void HostMemory::pre_evict(void* start, Bytes bytes, Tier to) {
  if (const std::optional<BlockRange> range = addresses_.blocks_with(start, bytes)) {
    engine_.pre_evict_blocks(range->first, range->count, to);
  }
}

}  // namespace spillway::host
