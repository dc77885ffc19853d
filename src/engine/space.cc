// Handing out block numbers; packing small allocations. See space.h.
#include "engine/space.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace spillway {
namespace {

constexpr Bytes kLargestAllocation = Bytes{1} << 50U;
// Packed allocations start on boundaries that every scalar and vector type accepts.
constexpr Bytes kPackAlignment = 256;

}  // namespace

Space::Space(Bytes frame_bytes) : frame_bytes_(std::max(frame_bytes, kPageBytes)) {}

Result<AllocationId> Space::allocate(Bytes bytes, std::uint64_t tag) {
  if (bytes == 0 || bytes > kLargestAllocation) {
    return make_error(ErrorCode::kInvalidInput,
                      "an allocation of {} bytes is not possible; sizes run from 1 byte to 1 PiB",
                      bytes);
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
  allocation = Allocation{.bytes = bytes, .tag = tag, .live = true};

  const Bytes packed_bytes = round_up(bytes, kPackAlignment);
  if (bytes < kPageBytes) {
    allocation.packed = true;
    allocation.block_count = 1;
    if (open_page_ == kNoBlock || open_page_used_bytes_ + packed_bytes > kPageBytes) {
      open_page_ = take_run(1);
      open_page_used_bytes_ = 0;
      blocks_[open_page_].bytes = static_cast<std::uint32_t>(round_up(kPageBytes, frame_bytes_));
    }
    open_page_used_bytes_ += packed_bytes;
    allocation.first_block = open_page_;
    blocks_[open_page_].allocation = id;
    ++blocks_[open_page_].tenants;
    return id;
  }

  const auto count = static_cast<std::uint32_t>((bytes + kBlockBytes - 1) / kBlockBytes);
  allocation.first_block = take_run(count);
  allocation.block_count = count;
  Bytes left = bytes;
  for (std::uint32_t i = 0; i < count; ++i) {
    Block& block = blocks_[allocation.first_block + i];
    block.bytes = static_cast<std::uint32_t>(round_up(std::min(left, kBlockBytes), frame_bytes_));
    block.allocation = id;
    block.tenants = 1;
    left -= std::min(left, kBlockBytes);
  }
  return id;
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
}

void Space::release(BlockId first_block, std::uint32_t block_count) {
  for (std::uint32_t i = 0; i < block_count; ++i) {
    assert(blocks_[first_block + i].frames.empty());
    blocks_[first_block + i] = Block{};
    if (first_block + i == open_page_) {
      open_page_ = kNoBlock;
    }
  }
  auto run = free_runs_.emplace(first_block, block_count).first;
  if (run != free_runs_.begin()) {
    const auto before = std::prev(run);
    if (before->first + before->second == run->first) {
      before->second += run->second;
      free_runs_.erase(run);
      run = before;
    }
  }
  const auto after = std::next(run);
  if (after != free_runs_.end() && run->first + run->second == after->first) {
    run->second += after->second;
    free_runs_.erase(after);
  }
}

// The first run that is long enough: numbers stay low and dense.
BlockId Space::take_run(std::uint32_t block_count) {
  const auto fits = std::find_if(free_runs_.begin(), free_runs_.end(),
                                 [&](const auto& run) { return run.second >= block_count; });
  if (fits != free_runs_.end()) {
    const auto [first, free_count] = *fits;
    free_runs_.erase(fits);
    if (free_count > block_count) {
      free_runs_.emplace(first + block_count, free_count - block_count);
    }
    return first;
  }
  const auto first = static_cast<BlockId>(blocks_.size());
  blocks_.resize(blocks_.size() + block_count);
  return first;
}

}  // namespace spillway
