// What the engine asks of the mechanism during one event, gathered into spans. Layer: engine.
// On a GPU a call of the driver costs tens of microseconds however many blocks it is for, so what
// an event asks of many blocks is asked together: unmap, drop, zero, map, in this order. Nothing is
// gathered past something later that was asked of the same block, and everything before a
// transfer starts or a launch is released.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/mechanism.h"
#include "engine/memory/space.h"

namespace spillway {

class MechanismBatch {
 public:
  MechanismBatch(Space& space, Mechanism& mechanism) : space_(&space), mechanism_(&mechanism) {}

  void unmap(BlockId id);
  void drop(BlockId id, Tier tier);
  void zero(BlockId id);
  void map(BlockId id, bool writable);
  // Says what was gathered.
  void flush();

  // The mechanism, which has heard everything until now.
  [[nodiscard]] Mechanism& now() {
    flush();
    return *mechanism_;
  }
  // The same, which may not have.
  [[nodiscard]] const Mechanism& asked() const { return *mechanism_; }
  [[nodiscard]] bool empty() const { return gathered_ == 0; }

 private:
  enum Stage : std::uint8_t { kUnmap = 1, kDrop = 2, kZero = 4, kMap = 8 };
  // Marks the block; what must come before is said first.
  void gather(BlockId id, Stage stage, std::uint8_t in_the_way);
  void take(std::vector<BlockId>& blocks);

  Space* space_;
  Mechanism* mechanism_;
  std::vector<BlockId> unmaps_;
  std::array<std::vector<BlockId>, kTierCount> drops_;
  std::vector<BlockId> zeros_;
  std::array<std::vector<BlockId>, 2> maps_;  // [writable]
  std::uint8_t gathered_ = 0;                 // stages of which there is any
};

}  // namespace spillway
