// What the links and the storage can still carry during each kernel of an iteration. Layer: policy.
// The iteration repeats, so the kernels form a ring: slot n + i is slot i of the next iteration
// (G10 section 4.3, "the estimated bandwidth utilizations").
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/types.h"
#include "machine/machine.h"

namespace spillway {

enum class Direction : std::uint8_t { kOut, kIn };  // from the device, to the device

class Channels {
 public:
  // slot_ns: the time of each kernel, none of them negative.
  Channels(const Machine& machine, const std::vector<TimeNs>& slot_ns);

  // Copying `bytes` down to `tier`, from slot `first` on, as soon as the channels allow: the slot
  // in which the last byte leaves, or nullopt if that is not before slot `limit`. Slots count on
  // beyond the ring's end.
  [[nodiscard]] std::optional<std::size_t> earliest_end(Tier tier, Bytes bytes, std::size_t first,
                                                        std::size_t limit) const;
  // Fetching `bytes` from `tier` so that the last byte is there before slot `last` begins, as late
  // as the channels allow: the slot in which the first byte moves, or nullopt if that is not at or
  // after slot `limit`.
  [[nodiscard]] std::optional<std::size_t> latest_start(Tier tier, Bytes bytes, std::size_t last,
                                                        std::size_t limit) const;
  // Takes the capacity that the two answers above are made of.
  void take_out(Tier tier, Bytes bytes, std::size_t first);
  void take_in(Tier tier, Bytes bytes, std::size_t last);

 private:
  [[nodiscard]] double room(Tier tier, Direction direction, std::size_t slot) const;
  void take(Tier tier, Direction direction, std::size_t slot, double bytes);
  [[nodiscard]] std::size_t ring(std::size_t slot) const { return slot % slots_; }

  std::size_t slots_;
  // Bytes that each direction of the link, and of the storage, can still carry in each slot.
  std::array<std::vector<double>, 2> link_;
  std::array<std::vector<double>, 2> storage_;
};

}  // namespace spillway
