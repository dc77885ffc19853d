// The seam to the world: what the engine asks a platform to do. Layer: engine.
// A platform (simulator, host, CUDA) implements this and calls the engine's event functions; it
// never decides anything. No function may call back into the engine: results are reported later,
// as events. Calls come in the order in which they must take effect.
#pragma once

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

  // Fill the device frame of the block with zeros, before any launch may see it.
  virtual void zero(BlockId block) = 0;

  // The device frame holds the block's bytes (or its zeros): launches may use it, and threads that
  // stopped at it go on. A platform that reports writes (EngineOptions::tracks_writes) stops the
  // first one to a block that is not writable; where the engine does not ask for that, every block
  // is. May be called again for a mapped block, to make it writable or to repeat what is so.
  virtual void map(BlockId block, bool writable) = 0;

  // No launch may use the device frame, and nobody write it, until the next map.
  virtual void unmap(BlockId block) = 0;

  // The block's frame in this tier, with whatever it holds, is given back.
  virtual void drop(BlockId block, Tier tier) = 0;

  // Every block that the launch faulted on is resident; those that are still missing are on their
  // way because somebody had asked for them before. Called once for a launch that faulted, not
  // later than launch_ready (DeepUM figure 3, the replay signal).
  virtual void faults_served(LaunchSeq seq) = 0;

  // Every block of the launch is resident and will stay so until Engine::end_launch.
  virtual void launch_ready(LaunchSeq seq) = 0;
};

}  // namespace spillway
