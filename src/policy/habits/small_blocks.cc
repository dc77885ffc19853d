// See small_blocks.h.
#include "policy/habits/small_blocks.h"

#include <algorithm>

#include "base/grown_at.h"
#include "engine/memory/for_each_block.h"
#include "engine/memory/page_queues.h"
#include "engine/memory/space.h"

namespace spillway {

// Where the device itself is small, small blocks are a good part of what it holds.
Bytes small_block_bytes(const Control& control) {
  constexpr Bytes kSmallPart = 128;
  return control.frames_have_sizes()
             ? std::min<Bytes>(control.capacity_bytes(Tier::kDevice) / kSmallPart, 16 * kMiB)
             : 0;
}

void SmallBlocks::ended(const Launch& launch) {
  for_each_block(launch, [&](BlockId id, const Access& /*access*/) {
    if (id < passed_.size()) {
      passed_[id] = kNotPassed;
    }
  });
}

void SmallBlocks::leaves(BlockId block, const Control& control) {
  left_bytes_ += control.space().block(block).bytes;
  if (block < passed_.size()) {
    passed_[block] = kNotPassed;
  }
}

// While so much has left that the device was filled anew, twice. What a step of training uses once
// is used again by then.
bool SmallBlocks::passed_too_long(BlockId block, Bytes device_bytes) {
  constexpr Bytes kTimes = 2;
  Bytes& passed = grown_at(passed_, block, kNotPassed);
  passed = std::min(passed, left_bytes_);
  return left_bytes_ - passed >= kTimes * device_bytes;
}

BlockId SmallBlocks::oldest_worth_moving(const Control& control) {
  // What lies behind so many, or so much, may be needed much sooner.
  constexpr int kLooks = 128;
  constexpr Bytes kPassedPart = 16;
  const PageQueues& queues = control.queues();
  const Bytes device_bytes = control.capacity_bytes(Tier::kDevice);
  const Bytes large_bytes = 2 * small_block_bytes(control);
  BlockId best = kNoBlock;
  Bytes most_bytes = 0;
  Bytes passed_bytes = 0;
  BlockId id = queues.oldest_unclaimed();
  for (int looks = 0;
       id != kNoBlock && looks < kLooks && passed_bytes <= device_bytes / kPassedPart;
       ++looks, id = queues.newer_unclaimed(id)) {
    const Bytes bytes = control.space().block(id).bytes;
    if (bytes >= large_bytes || passed_too_long(id, device_bytes)) {
      return id;
    }
    if (bytes > most_bytes) {
      best = id;
      most_bytes = bytes;
    }
    passed_bytes += bytes;
  }
  return best;
}

}  // namespace spillway
