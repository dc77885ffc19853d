// What the links and the storage can still carry during each kernel of an iteration. Layer: policy.
// The iteration repeats, so the kernels form a ring: slot n + i is slot i of the next iteration
// (G10 section 4.3, "the estimated bandwidth utilizations").
// A question takes a few steps however long its answer is (room_sums.h), and is answered as if the
// slots' rooms were added up one by one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/types.h"
#include "machine/machine.h"
#include "policy/planning/room_sums.h"

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
  // One direction: bytes that can still be carried in each slot.
  struct Lane {
    std::vector<double> link;
    std::vector<double> storage;
    RoomSums link_sums;
    RoomSums both_sums;  // of what link and storage can carry both
  };
  static Lane make_lane(const std::vector<TimeNs>& slot_ns, double link_bytes_per_s,
                        double storage_bytes_per_s);
  [[nodiscard]] const Lane& lane(Direction direction) const {
    return lanes_[static_cast<std::size_t>(direction)];
  }
  [[nodiscard]] const RoomSums& sums(Tier tier, Direction direction) const {
    return tier == Tier::kHost ? lane(direction).link_sums : lane(direction).both_sums;
  }
  // These two of a slot of the ring. What could be taken is the answer.
  [[nodiscard]] double room(Tier tier, Direction direction, std::size_t slot) const;
  double take(Tier tier, Direction direction, std::size_t slot, double most_bytes);
  // Whether sums that are added up in another order might say another slot.
  [[nodiscard]] bool open(Tier tier, Direction direction, Bytes bytes,
                          const RoomSums::Reached& reached) const;
  [[nodiscard]] std::optional<std::size_t> walk_to_end(Tier tier, Bytes bytes, std::size_t first,
                                                       std::size_t limit) const;
  [[nodiscard]] std::optional<std::size_t> walk_to_start(Tier tier, Bytes bytes, std::size_t last,
                                                         std::size_t limit) const;
  [[nodiscard]] std::size_t ring(std::size_t slot) const { return slot % slots_; }

  std::size_t slots_;
  std::array<Lane, 2> lanes_;  // by direction
};

}  // namespace spillway
