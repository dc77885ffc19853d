// Walking the ring of slots. See channels.h.
#include "policy/channels.h"

#include <algorithm>

namespace spillway {
namespace {

constexpr double kCrumbBytes = 0.5;

std::size_t index_of(Direction direction) { return static_cast<std::size_t>(direction); }

}  // namespace

Channels::Channels(const Machine& machine, const std::vector<TimeNs>& slot_ns)
    : slots_(slot_ns.size()) {
  const auto fill = [&](std::vector<double>& capacity, double bytes_per_s) {
    capacity.reserve(slots_);
    for (const TimeNs ns : slot_ns) {
      capacity.push_back(bytes_per_s * 1e-9 * static_cast<double>(ns));
    }
  };
  fill(link_[index_of(Direction::kOut)], machine.link.from_device_bytes_per_s);
  fill(link_[index_of(Direction::kIn)], machine.link.to_device_bytes_per_s);
  fill(storage_[index_of(Direction::kOut)], machine.storage.write_bytes_per_s);
  fill(storage_[index_of(Direction::kIn)], machine.storage.read_bytes_per_s);
}

double Channels::room(Tier tier, Direction direction, std::size_t slot) const {
  const double link = link_[index_of(direction)][ring(slot)];
  return tier == Tier::kHost ? link : std::min(link, storage_[index_of(direction)][ring(slot)]);
}

void Channels::take(Tier tier, Direction direction, std::size_t slot, double bytes) {
  link_[index_of(direction)][ring(slot)] -= bytes;
  if (tier == Tier::kStorage) {
    storage_[index_of(direction)][ring(slot)] -= bytes;
  }
}

std::optional<std::size_t> Channels::earliest_end(Tier tier, Bytes bytes, std::size_t first,
                                                  std::size_t limit) const {
  auto left = static_cast<double>(bytes);
  for (std::size_t slot = first; slot < limit; ++slot) {
    left -= room(tier, Direction::kOut, slot);
    if (left <= kCrumbBytes) {
      return slot;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> Channels::latest_start(Tier tier, Bytes bytes, std::size_t last,
                                                  std::size_t limit) const {
  auto left = static_cast<double>(bytes);
  for (std::size_t slot = last; slot > limit; --slot) {
    left -= room(tier, Direction::kIn, slot - 1);
    if (left <= kCrumbBytes) {
      return slot - 1;
    }
  }
  return std::nullopt;
}

void Channels::take_out(Tier tier, Bytes bytes, std::size_t first) {
  auto left = static_cast<double>(bytes);
  for (std::size_t slot = first; left > kCrumbBytes && slot < first + slots_; ++slot) {
    const double moved = std::min(left, room(tier, Direction::kOut, slot));
    take(tier, Direction::kOut, slot, moved);
    left -= moved;
  }
}

void Channels::take_in(Tier tier, Bytes bytes, std::size_t last) {
  auto left = static_cast<double>(bytes);
  for (std::size_t slot = last + slots_; left > kCrumbBytes && slot > last; --slot) {
    const double moved = std::min(left, room(tier, Direction::kIn, slot - 1));
    take(tier, Direction::kIn, slot - 1, moved);
    left -= moved;
  }
}

}  // namespace spillway
