// Which bytes of the device admitted launches hold, and how many more the next one in line needs;
// beside that, what is fixed there, and no launch's to hold. Layer: engine.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "base/error.h"
#include "engine/launches/launch_table.h"
#include "engine/memory/space.h"

namespace spillway {

class Pins {
 public:
  explicit Pins(Space& space) : space_(&space) {}

  // True if it was not pinned before.
  bool pin(BlockId id);
  // True if nothing pins it any more.
  bool unpin(BlockId id);
  // Of what is not fixed.
  [[nodiscard]] Bytes bytes() const { return bytes_; }

  // One more allocation in the block is fixed, while launches use it; or one less: true if nothing
  // pins it any more.
  void fix(BlockId id);
  bool end_fix(BlockId id);
  [[nodiscard]] Bytes fixed_bytes() const { return fixed_bytes_; }

  // The launch is next in line and waits for room: from here on it is known at once what it needs
  // beside what is pinned. kNoIndex: none is.
  void hold_for(std::uint32_t slot, const LaunchTable& launches);
  [[nodiscard]] std::uint32_t held_for() const { return slot_; }
  [[nodiscard]] Bytes more_bytes() const { return more_bytes_; }

  [[nodiscard]] Status check() const;

 private:
  Space* space_;
  Bytes bytes_ = 0;
  Bytes fixed_bytes_ = 0;
  std::uint32_t slot_ = kNoIndex;
  Bytes more_bytes_ = 0;
};

// What the launch's operands are together: each block once if that is more than `enough`, else
// at most that.
[[nodiscard]] Bytes bytes_of(const Launch& launch, const Space& space, Bytes enough);
// No less than what these operands are together: blocks as large as their allocation's, as often as
// they are named.
[[nodiscard]] Bytes bound_bytes_of(std::span<const Access> accesses, const Space& space);
// Those of its blocks that nothing has pinned on the device, each once.
[[nodiscard]] Bytes unpinned_bytes_of(const Launch& launch, const Space& space);
// Those that no admitted update uses, each once.
[[nodiscard]] Bytes bytes_not_at_host(const Launch& launch, const Space& space);
// Those that are not fixed, each once.
[[nodiscard]] Bytes unfixed_bytes_of(const Launch& launch, const Space& space);

}  // namespace spillway
