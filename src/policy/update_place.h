// Where an update runs: next to its data in host memory, or on the device like any launch.
// Layer: policy. docs/near-memory.md, "Where an update runs".
#pragma once

#include "engine/space.h"
#include "engine/types.h"

namespace spillway {

// True if fewer bytes cross the link where it runs at the host. On the device, what is not there
// has to come, and what it writes of that has to leave again some day. At the host, what is on the
// device has to come down, but for what is below as well; of that what it writes, the parameter, is
// wanted on the device again.
[[nodiscard]] inline bool pays_at_host(const Launch& launch, const Space& space) {
  Bytes on_device_bytes = 0;
  Bytes at_host_bytes = 0;
  for (const Access& access : launch.accesses) {
    for (std::uint32_t i = 0; i < access.block_count; ++i) {
      const Block& block = space.block(access.first_block + i);
      const Bytes crossings = writes(access.mode) ? 2 : 1;
      if (block.contents != Contents::kLive) {
        continue;
      }
      if (!block.copies.has(Tier::kDevice)) {
        on_device_bytes += crossings * block.bytes;
      } else if (writes(access.mode)) {
        at_host_bytes += (safe_below(block) ? Bytes{1} : Bytes{2}) * block.bytes;
      } else {
        at_host_bytes += safe_below(block) ? 0 : block.bytes;
      }
    }
  }
  return at_host_bytes < on_device_bytes;
}

}  // namespace spillway
