// What the engine counts. Layer: engine. Plain numbers, copyable; the difference of two snapshots
// is what happened between them.
#pragma once

#include <array>
#include <cstdint>

#include "engine/types.h"

namespace spillway {

struct EngineStats {
  // Bytes whose transfer has finished, by [from][to].
  std::array<std::array<Bytes, kTierCount>, kTierCount> moved_bytes{};
  // Transfers that did not happen because the contents were dead, both directions
  // (UVM Discard section 5.3).
  Bytes saved_by_discard_bytes = 0;
  // Contents that were given up because a launch could make them again.
  Bytes given_up_bytes = 0;
  // Blocks that launches use in host memory from then on (docs/cuda.md).
  Bytes host_mapped_bytes = 0;
  std::uint64_t launches = 0;           // on the device
  std::uint64_t updates = 0;            // launches that run at the host
  std::uint64_t faults = 0;             // blocks that a launch needed and nobody had asked for
  std::uint64_t late_prefetches = 0;    // blocks that a launch needed while they were on their way
  std::uint64_t prefetched = 0;         // blocks that came by prefetch
  std::uint64_t prefetches_used = 0;    // blocks that came by prefetch before a launch used them
  std::uint64_t prefetches_wasted = 0;  // ... that left again unused
  std::uint64_t evictions = 0;          // blocks moved away to make room
  std::uint64_t pre_evictions = 0;      // blocks copied down ahead of need
  std::uint64_t cancelled_evictions = 0;
  std::uint64_t reclaimed_unused = 0;     // frames taken from the unused queue
  std::uint64_t reclaimed_discarded = 0;  // ... from the discarded queue
  std::uint64_t recovered = 0;            // discarded blocks used again before they were reclaimed
  std::uint64_t zeroed = 0;               // blocks
  std::uint64_t failed_transfers = 0;

  [[nodiscard]] Bytes moved(Tier from, Tier to) const {
    return moved_bytes[index_of(from)][index_of(to)];
  }
};

// after - before, field by field.
[[nodiscard]] EngineStats difference(const EngineStats& after, const EngineStats& before);

}  // namespace spillway
