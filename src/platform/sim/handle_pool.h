// Handles of device memory by size, and what the driver's calls for one take. Layer: platform,
// simulator. Knows neither blocks nor time.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "engine/memory/free_frames.h"
#include "machine/machine.h"

namespace spillway::sim {

// A handle backs one block, whole: what leaves is kept for the next block of exactly its size, and
// released, oldest first, when a handle of another size needs the room.
class HandlePool {
 public:
  HandlePool(const Handles& costs, Bytes budget_bytes)
      : costs_(costs), budget_bytes_(budget_bytes) {}

  // How long the calls take that give a block of this size a handle: none for one that is free.
  [[nodiscard]] TimeNs take(Bytes bytes);
  void give_back(Bytes bytes) { free_.add(bytes); }

  [[nodiscard]] std::uint64_t made() const { return made_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }  // of all handles
  [[nodiscard]] Bytes released_bytes() const { return released_bytes_; }

 private:
  [[nodiscard]] bool release_oldest();

  Handles costs_;
  Bytes budget_bytes_;
  Bytes bytes_ = 0;
  Bytes released_bytes_ = 0;
  std::uint64_t made_ = 0;
  FreeFrames free_;
};

}  // namespace spillway::sim
