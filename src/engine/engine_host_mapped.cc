// Blocks whose device frame is host memory, which launches use over the link. docs/cuda.md; see
// engine.h. What launches need of the device is counted as if it were there: so a block can become
// near at any time, whoever has been issued or admitted meanwhile.
#include <cassert>

#include "engine/engine.h"

namespace spillway {

bool Engine::set_host_mapped(BlockId id) {
  if (!alive(id) || ignores_wishes() || options_.tracks_writes || space_.is_shared(id) ||
      recomputable_.has(owner_of(id))) {
    return false;
  }
  const Block& block = space_.block(id);
  if (block.host_mapped || block.pins > 0 || block.awaited || block.evicting ||
      block.transfer != kNoIndex || block.contents != Contents::kLive ||
      block.frames.has(Tier::kDevice) || !block.copies.has(Tier::kHost) ||
      tiers_.host_mapped_bytes() + block.bytes > host_mapped_capacity_bytes_) {
    return false;
  }
  tiers_.set_host_mapped(id);
  stats_.host_mapped_bytes += block.bytes;
  prefetch(id);
  return true;
}

void Engine::clear_host_mapped(BlockId id) {
  if (!alive(id)) {
    return;
  }
  const Block& block = space_.block(id);
  if (block.host_mapped && leavable(block) && block.contents == Contents::kLive &&
      tiers_.room_for(id, Tier::kHost) >= block.bytes) {
    evictions_.wish(id, Tier::kHost, false);
  }
}

// A host-mapped block's frame, if it has one, is given back, and its next one is the device's.
// False for one that is not host-mapped, and while an admitted launch uses it: then it stays as it
// is.
bool Engine::end_host_mapped(BlockId id) {
  Block& block = space_.block(id);
  if (!block.host_mapped || (pinned_on_device(block) && block.frames.has(Tier::kDevice))) {
    return false;
  }
  assert(block.transfer == kNoIndex);
  fetches_.remove(block);
  lose_device_frame(id);
  tiers_.end_host_mapped(id);
  return true;
}

}  // namespace spillway
