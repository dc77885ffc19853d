// Handing out block numbers; packing small allocations. See space.h.
#include "engine/memory/space.h"

#include <algorithm>
#include <cassert>
#include <tuple>

#include "engine/broken.h"

namespace spillway {
namespace {

constexpr Bytes kLargestAllocation = Bytes{1} << 50U;
constexpr Bytes kLargestBlock = kGiB;
constexpr std::uint64_t kMostBlocks = std::uint64_t{1} << 31U;
// Packed allocations start on boundaries that every scalar and vector type accepts, and a GPU's
// kernels expect.
constexpr Bytes kPackAlignment = 256;

}  // namespace

Space::Space(Bytes frame_bytes) : frame_bytes_(std::max(frame_bytes, kPageBytes)) {}

Result<AllocationId> Space::allocate(Bytes bytes, std::uint64_t tag, Bytes block_bytes) {
  if (bytes == 0 || bytes > kLargestAllocation) {
    return make_error(ErrorCode::kInvalidInput,
                      "an allocation of {} bytes is not possible; sizes run from 1 byte to 1 PiB",
                      bytes);
  }
  block_bytes = std::max(block_bytes, frame_bytes_);
  if (block_bytes % frame_bytes_ != 0 || block_bytes > kLargestBlock) {
    return make_error(ErrorCode::kInvalidInput,
                      "blocks of {} bytes are not possible; they are multiples of the frame, {}, "
                      "up to {}",
                      block_bytes, format_bytes(frame_bytes_), format_bytes(kLargestBlock));
  }
  const std::uint64_t count = (bytes + block_bytes - 1) / block_bytes;
  if (blocks_.size() + count > kMostBlocks) {
    return make_error(ErrorCode::kInvalidInput,
                      "an allocation of {} in blocks of {} is not possible; there are at most {} "
                      "blocks in all",
                      format_bytes(bytes), format_bytes(block_bytes), kMostBlocks);
  }
  AllocationId id = 0;
  if (free_allocations_.empty()) {
    id = static_cast<AllocationId>(allocations_.size());
    allocations_.emplace_back();
  } else {
    id = free_allocations_.back();
    free_allocations_.pop_back();
  }
  Allocation& allocation = allocations_[id];
  allocation = Allocation{.bytes = bytes, .block_bytes = block_bytes, .tag = tag, .live = true};
  if (bytes < frame_bytes_) {
    pack(allocation, id);
    return id;
  }
  allocation.block_count = static_cast<std::uint32_t>(count);
  allocation.first_block = take_run(allocation.block_count);
  Bytes left = bytes;
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    Block& block = blocks_[allocation.first_block + i];
    block.bytes = static_cast<std::uint32_t>(round_up(std::min(left, block_bytes), frame_bytes_));
    block.allocation = id;
    block.tenants = 1;
    allocation.frame_bytes += block.bytes;
    left -= std::min(left, block_bytes);
  }
  return id;
}

void Space::pack(Allocation& allocation, AllocationId id) {
  const Bytes bytes = round_up(allocation.bytes, kPackAlignment);
  std::optional<Bytes> found = free_room_.take(bytes);
  if (!found) {
    const BlockId frame = take_run(1);
    blocks_[frame].bytes = static_cast<std::uint32_t>(frame_bytes_);
    free_room_.give(room_of(frame), frame_bytes_);
    found = free_room_.take(bytes);
  }
  const Bytes place = found.value_or(0);  // there is room in an empty frame
  allocation.packed = true;
  allocation.block_count = 1;
  allocation.block_bytes = allocation.frame_bytes = frame_bytes_;
  allocation.first_block = static_cast<BlockId>(place / (2 * frame_bytes_));
  allocation.offset_bytes = place % (2 * frame_bytes_);
  blocks_[allocation.first_block].allocation = id;
  ++blocks_[allocation.first_block].tenants;
}

void Space::end(AllocationId id) {
  Allocation& allocation = allocations_[id];
  assert(allocation.live);
  allocation.live = false;
  free_allocations_.push_back(id);
  for (std::uint32_t i = 0; i < allocation.block_count; ++i) {
    Block& block = blocks_[allocation.first_block + i];
    assert(block.tenants > 0);
    --block.tenants;
  }
  if (!allocation.packed) {
    return;
  }
  const auto [first, count] =
      free_room_.give(room_of(allocation.first_block) + allocation.offset_bytes,
                      round_up(allocation.bytes, kPackAlignment));
  if (blocks_[allocation.first_block].tenants == 0) {
    free_room_.remove(first, count);  // the frame goes as a whole
  }
}

void Space::release(BlockId first_block, std::uint32_t block_count) {
  for (std::uint32_t i = 0; i < block_count; ++i) {
    assert(blocks_[first_block + i].frames.empty() && blocks_[first_block + i].tenants == 0);
    blocks_[first_block + i] = Block{};
  }
  free_blocks_.give(first_block, block_count);
}

Status Space::check() const {
  std::vector<std::uint32_t> tenants(blocks_.size());
  std::vector<std::tuple<BlockId, Bytes, Bytes>> packed;
  for (const Allocation& allocation : allocations_) {
    for (std::uint32_t i = 0; allocation.live && i < allocation.block_count; ++i) {
      ++tenants[allocation.first_block + i];
    }
    if (allocation.live && allocation.packed) {
      packed.emplace_back(allocation.first_block, allocation.offset_bytes, allocation.bytes);
    }
  }
  for (BlockId id = 0; id < blocks_.size(); ++id) {
    if (tenants[id] != blocks_[id].tenants) {
      return broken(id, "its tenants were counted wrongly");
    }
  }
  std::sort(packed.begin(), packed.end());
  for (std::size_t i = 1; i < packed.size(); ++i) {
    const auto& [block, offset, bytes] = packed[i - 1];
    if (block == std::get<0>(packed[i]) && offset + bytes > std::get<1>(packed[i])) {
      return broken(block, "two allocations lie in the same place of a frame");
    }
  }
  return {};
}

BlockId Space::take_run(std::uint32_t block_count) {
  if (const auto first = free_blocks_.take(block_count)) {
    return static_cast<BlockId>(*first);
  }
  const auto first = static_cast<BlockId>(blocks_.size());
  blocks_.resize(blocks_.size() + block_count);
  return first;
}

}  // namespace spillway
