// See pins.h.
#include "engine/launches/pins.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "engine/broken.h"
#include "engine/memory/for_each_block.h"

namespace spillway {

bool Pins::pin(BlockId id) {
  Block& block = space_->block(id);
  assert(!block.at_host && block.pins < std::numeric_limits<std::uint32_t>::max());
  if (block.pins++ > 0) {
    return false;
  }
  bytes_ += block.bytes;
  more_bytes_ -= block.held_for ? block.bytes : 0;
  return true;
}

bool Pins::unpin(BlockId id) {
  Block& block = space_->block(id);
  assert(block.pins > 0);
  if (--block.pins > 0) {
    return false;
  }
  bytes_ -= block.bytes;
  more_bytes_ += block.held_for ? block.bytes : 0;
  return true;
}

void Pins::fix(BlockId id) {
  Block& block = space_->block(id);
  assert(block.pins > 0 && block.fixed < std::numeric_limits<std::uint16_t>::max());
  ++block.pins;
  if (block.fixed++ == 0) {
    bytes_ -= block.bytes;
    fixed_bytes_ += block.bytes;
  }
}

bool Pins::end_fix(BlockId id) {
  Block& block = space_->block(id);
  assert(block.fixed > 0);
  if (--block.fixed == 0) {
    fixed_bytes_ -= block.bytes;
    bytes_ += block.bytes;  // as if launches alone had pinned it
  }
  return unpin(id);
}

void Pins::hold_for(std::uint32_t slot, const LaunchTable& launches) {
  if (slot_ != kNoIndex) {
    for_each_block(launches.at(slot_).launch, [this](BlockId id, const Access& /*access*/) {
      space_->block(id).held_for = false;
    });
  }
  slot_ = slot;
  more_bytes_ = 0;
  if (slot_ == kNoIndex) {
    return;
  }
  for_each_block(launches.at(slot_).launch, [this](BlockId id, const Access& /*access*/) {
    Block& block = space_->block(id);
    if (!block.held_for) {
      block.held_for = true;
      more_bytes_ += pinned_on_device(block) ? 0 : block.bytes;
    }
  });
}

Status Pins::check() const {
  Bytes pinned = 0;
  Bytes fixed = 0;
  Bytes more = 0;
  for (BlockId id = 0; id < space_->block_slots(); ++id) {
    const Block& block = space_->block(id);
    pinned += pinned_on_device(block) && block.fixed == 0 ? block.bytes : 0;
    fixed += block.fixed > 0 ? block.bytes : 0;
    more += block.held_for && !pinned_on_device(block) ? block.bytes : 0;
    if (block.fixed > block.pins) {
      return broken(id, "fixed, and not pinned");
    }
    if (block.held_for && slot_ == kNoIndex) {
      return broken(id, "held for a launch, and none is next in line");
    }
  }
  if (pinned != bytes_) {
    return broken_sum("pinned", bytes_, pinned);
  }
  if (fixed != fixed_bytes_) {
    return broken_sum("fixed", fixed_bytes_, fixed);
  }
  if (more != more_bytes_) {
    return broken_sum("needed by the launch that is next in line", more_bytes_, more);
  }
  return {};
}

namespace {

// The operands in the order of their blocks, cut so that no block lies in two of them.
std::vector<Access> each_block_once(const Launch& launch) {
  std::vector<Access> sorted = launch.accesses;
  std::sort(sorted.begin(), sorted.end(),
            [](const Access& a, const Access& b) { return a.first_block < b.first_block; });
  BlockId end = 0;
  for (Access& access : sorted) {
    const BlockId own_end = access.first_block + access.block_count;
    access.first_block = std::min(std::max(access.first_block, end), own_end);
    access.block_count = own_end - access.first_block;
    end = std::max(end, own_end);
  }
  return sorted;
}

Bytes bytes_of(const Access& access, const Space& space) {
  if (access.block_count == 0) {
    return 0;
  }
  const BlockId last = access.first_block + access.block_count - 1;
  if (access.block_count == 1) {
    return space.block(last).bytes;  // its allocation lies elsewhere in memory
  }
  return (access.block_count - 1) * space.allocation(access.allocation).block_bytes +
         space.block(last).bytes;
}

}  // namespace

// The sum over operands is enough where it is small, and then nothing need be sorted.
Bytes bytes_of(const Launch& launch, const Space& space, Bytes enough) {
  Bytes sum = 0;
  for (const Access& access : launch.accesses) {
    sum += bytes_of(access, space);
  }
  if (sum <= enough) {
    return sum;
  }
  sum = 0;
  for (const Access& access : each_block_once(launch)) {
    sum += bytes_of(access, space);
  }
  return sum;
}

Bytes bound_bytes_of(std::span<const Access> accesses, const Space& space) {
  Bytes sum = 0;
  for (const Access& access : accesses) {
    sum += access.block_count * space.allocation(access.allocation).block_bytes;
  }
  return sum;
}

namespace {

template <typename Counts>
Bytes bytes_of_those(const Launch& launch, const Space& space, const Counts& counts) {
  Bytes sum = 0;
  for (const Access& access : each_block_once(launch)) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const Block& block = space.block(access.first_block + i);
      sum += counts(block) ? block.bytes : 0;
    }
  }
  return sum;
}

}  // namespace

Bytes unpinned_bytes_of(const Launch& launch, const Space& space) {
  return bytes_of_those(launch, space, [](const Block& block) { return !pinned_on_device(block); });
}

Bytes bytes_not_at_host(const Launch& launch, const Space& space) {
  return bytes_of_those(launch, space, [](const Block& block) { return !block.at_host; });
}

Bytes unfixed_bytes_of(const Launch& launch, const Space& space) {
  return bytes_of_those(launch, space, [](const Block& block) { return block.fixed == 0; });
}

}  // namespace spillway
