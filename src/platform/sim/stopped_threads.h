// Threads that use memory outside launches, on a platform that tracks writes: they stop where they
// may not go, and go on when the engine has mapped what they stopped at. Layer: platform,
// simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "engine/engine.h"
#include "platform/sim/event_queue.h"
#include "platform/sim/frame_contents.h"

namespace spillway::sim {

class StoppedThreads {
 public:
  // What it works with, all of which must outlive it.
  struct Parts {
    Rng& rng;
    Engine& engine;
    EventQueue& clock;
    FrameContents& contents;
  };
  // `touched` says when a thread has used what it wanted to.
  StoppedThreads(const Parts& parts, std::function<void(std::uint64_t thread)> touched)
      : parts_(parts), touched_(std::move(touched)) {}

  // Simulator::touch.
  void touch(std::uint64_t thread, BlockId id, bool write);
  // At Event::Kind::kFaultsArrive.
  void faults_arrive();
  // The block has been mapped.
  void go_on(BlockId id);
  // The transfer's bytes are there, or it has failed, and the engine is told next.
  void arrive(const Transfer& transfer, bool failed);

  [[nodiscard]] std::size_t count() const { return stopped_.size(); }

 private:
  struct Touch {
    std::uint64_t thread = 0;
    BlockId block = 0;
    bool write = false;
    bool reported = false;  // its fault is on its way to the engine
    bool silent = false;    // it waits for bytes that arrive, and nobody has heard of it
  };

  void report(Touch& touch);
  void carry_out(const Touch& touch);

  Parts parts_;
  std::function<void(std::uint64_t)> touched_;
  std::vector<Touch> stopped_;       // threads that stand at a block
  std::vector<ThreadFault> faults_;  // that the engine has not heard of
};

}  // namespace spillway::sim
