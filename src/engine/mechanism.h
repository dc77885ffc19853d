// The seam to the world: what the engine asks a platform to do. Layer: engine.
// A platform (simulator, host, CUDA) implements this and calls the engine's event functions; it
// does not decide what moves. No function may call back into the engine: results are reported
// later, as events. Calls come in the order in which they must take effect; of a block that a
// transfer moves nothing more is asked until it has ended. Spans name each block once, and hold
// until the call returns.
#pragma once

#include <cassert>
#include <cstdint>
#include <span>

#include "engine/types.h"

namespace spillway {

class Mechanism {
 public:
  Mechanism() = default;
  Mechanism(const Mechanism&) = delete;
  Mechanism& operator=(const Mechanism&) = delete;
  virtual ~Mechanism() = default;

  // Copy the blocks' bytes from one tier's frames to the other's. Answered by exactly one
  // Engine::transfer_finished or Engine::transfer_failed. Until then the source keeps its bytes.
  virtual void start_transfer(const Transfer& transfer) = 0;

  // Fill the device frames of the blocks with zeros, before any launch may see them.
  virtual void zero(std::span<const BlockId> blocks) = 0;

  // The same of the frames in host memory, before an update uses them (Launch::runs_at). Asked only
  // where updates are issued.
  virtual void zero_at_host(std::span<const BlockId> /*blocks*/) {
    assert(false && "a platform without updates");
  }

  // The device frames hold the blocks' bytes (or zeros), or are about to be filled by a transfer
  // that starts next (EngineOptions::release_early): launches may use them, and threads that
  // stopped at them go on. A platform that reports writes (EngineOptions::tracks_writes) stops the
  // first one to a block that is not writable; where the engine does not ask for that, every block
  // is. May be called again for a mapped block, to make it writable or to repeat what is so.
  virtual void map(std::span<const BlockId> blocks, bool writable) = 0;

  // No launch may use the device frames, and nobody write them, until the next map.
  virtual void unmap(std::span<const BlockId> blocks) = 0;

  // The blocks' frames in this tier, with whatever they hold, are given back.
  virtual void drop(std::span<const BlockId> blocks, Tier tier) = 0;

  // The allocation has been freed, and every launch that named it has ended: its frames are dropped
  // next, or when what moves has arrived. Space still knows it during this call; after that its
  // number may be given to another.
  virtual void freed(AllocationId /*id*/) {}

  // What the allocation held is given up, in whatever tier, because it can be made again
  // (Engine::set_recomputable).
  virtual void gave_up(AllocationId /*id*/) {}

  // Asked when a block needs a frame and none is free: the block that had best give its own, if it
  // is dead; kNoBlock where that makes no difference to the platform. The one function here that
  // is asked in the middle of an event, before what comes earlier has been said.
  [[nodiscard]] virtual BlockId holds_frame_of(BlockId /*block*/) const { return kNoBlock; }

  // Launches are named by their tag.

  // Every block that the launch faulted on is resident; those that are still missing are on their
  // way because somebody had asked for them before. Called once for a launch that faulted, not
  // later than release_launch (DeepUM figure 3, the replay signal), but with release_early when it
  // is so.
  virtual void faults_served(std::uint64_t launch) = 0;

  // The launch may run, behind what comes before it on its stream, once these transfers have
  // finished; those that have already need not be waited for. Its blocks stay until
  // Engine::end_launch. Without release_early there are none: every block is resident. With it, a
  // transfer may fail yet: then the launch must not run before it has been released again.
  virtual void release_launch(std::uint64_t launch, std::span<const TransferId> transfers) = 0;
};

}  // namespace spillway
