// Walking the ring of slots. See channels.h.
#include "policy/planning/channels.h"

#include <algorithm>
#include <utility>

namespace spillway {
namespace {

constexpr double kCrumbBytes = 0.5;
// One rounding of a sum, in parts of it.
constexpr double kRounding = 2.3e-16;

}  // namespace

Channels::Lane Channels::make_lane(const std::vector<TimeNs>& slot_ns, double link_bytes_per_s,
                                   double storage_bytes_per_s) {
  std::vector<double> link;
  std::vector<double> storage;
  std::vector<double> both;
  for (const TimeNs ns : slot_ns) {
    link.push_back(link_bytes_per_s * 1e-9 * static_cast<double>(ns));
    storage.push_back(storage_bytes_per_s * 1e-9 * static_cast<double>(ns));
    both.push_back(std::min(link.back(), storage.back()));
  }
  RoomSums link_sums(link);
  return {std::move(link), std::move(storage), std::move(link_sums), RoomSums(both)};
}

Channels::Channels(const Machine& machine, const std::vector<TimeNs>& slot_ns)
    : slots_(slot_ns.size()),
      lanes_{make_lane(slot_ns, machine.link.from_device_bytes_per_s,
                       machine.storage.write_bytes_per_s),
             make_lane(slot_ns, machine.link.to_device_bytes_per_s,
                       machine.storage.read_bytes_per_s)} {}

double Channels::room(Tier tier, Direction direction, std::size_t slot) const {
  const Lane& here = lane(direction);
  const double link = here.link[slot];
  return tier == Tier::kHost ? link : std::min(link, here.storage[slot]);
}

double Channels::take(Tier tier, Direction direction, std::size_t slot, double most_bytes) {
  const double bytes = std::min(most_bytes, room(tier, direction, slot));
  if (bytes == 0) {
    return 0;
  }
  Lane& here = lanes_[static_cast<std::size_t>(direction)];
  here.link[slot] -= bytes;
  here.link_sums.set(slot, here.link[slot]);
  if (tier == Tier::kStorage) {
    here.storage[slot] -= bytes;
  }
  here.both_sums.set(slot, std::min(here.link[slot], here.storage[slot]));
  return bytes;
}

bool Channels::open(Tier tier, Direction direction, Bytes bytes,
                    const RoomSums::Reached& reached) const {
  const double rounding_bytes =
      kRounding * static_cast<double>(slots_ + 64) * static_cast<double>(bytes);
  const double beyond_bytes = reached.slot < slots_
                                  ? room(tier, direction, reached.slot) - reached.lacking
                                  : reached.lacking;
  return reached.lacking <= rounding_bytes || beyond_bytes <= rounding_bytes;
}

std::optional<std::size_t> Channels::earliest_end(Tier tier, Bytes bytes, std::size_t first,
                                                  std::size_t limit) const {
  const RoomSums& rooms = sums(tier, Direction::kOut);
  std::size_t round = first / slots_ * slots_;
  RoomSums::Reached reached = rooms.rising(first - round, static_cast<double>(bytes) - kCrumbBytes);
  while (reached.slot == slots_ && round + slots_ < limit) {
    round += slots_;
    reached = rooms.rising(0, reached.lacking);
  }
  if (open(tier, Direction::kOut, bytes, reached)) {
    return walk_to_end(tier, bytes, first, limit);
  }
  return round + reached.slot < limit && reached.slot < slots_ ? std::optional(round + reached.slot)
                                                               : std::nullopt;
}

std::optional<std::size_t> Channels::latest_start(Tier tier, Bytes bytes, std::size_t last,
                                                  std::size_t limit) const {
  if (last <= limit) {
    return std::nullopt;
  }
  const RoomSums& rooms = sums(tier, Direction::kIn);
  std::size_t round = (last - 1) / slots_ * slots_;
  RoomSums::Reached reached = rooms.falling(last - round, static_cast<double>(bytes) - kCrumbBytes);
  while (reached.slot == slots_ && round > limit) {
    round -= slots_;
    reached = rooms.falling(slots_, reached.lacking);
  }
  if (open(tier, Direction::kIn, bytes, reached)) {
    return walk_to_start(tier, bytes, last, limit);
  }
  return reached.slot < slots_ && round + reached.slot >= limit
             ? std::optional(round + reached.slot)
             : std::nullopt;
}

std::optional<std::size_t> Channels::walk_to_end(Tier tier, Bytes bytes, std::size_t first,
                                                 std::size_t limit) const {
  auto left = static_cast<double>(bytes);
  for (std::size_t slot = first; slot < limit; ++slot) {
    left -= room(tier, Direction::kOut, ring(slot));
    if (left <= kCrumbBytes) {
      return slot;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> Channels::walk_to_start(Tier tier, Bytes bytes, std::size_t last,
                                                   std::size_t limit) const {
  auto left = static_cast<double>(bytes);
  for (std::size_t slot = last; slot > limit; --slot) {
    left -= room(tier, Direction::kIn, ring(slot - 1));
    if (left <= kCrumbBytes) {
      return slot - 1;
    }
  }
  return std::nullopt;
}

void Channels::take_out(Tier tier, Bytes bytes, std::size_t first) {
  auto left = static_cast<double>(bytes);
  for (std::size_t slot = first; left > kCrumbBytes && slot < first + slots_; ++slot) {
    left -= take(tier, Direction::kOut, ring(slot), left);
  }
}

void Channels::take_in(Tier tier, Bytes bytes, std::size_t last) {
  auto left = static_cast<double>(bytes);
  for (std::size_t slot = last + slots_; left > kCrumbBytes && slot > last; --slot) {
    left -= take(tier, Direction::kIn, ring(slot - 1), left);
  }
}

}  // namespace spillway
