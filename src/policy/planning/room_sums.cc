// See room_sums.h.
#include "policy/planning/room_sums.h"

#include <bit>

namespace spillway {
namespace {

// The last node of its level, or the first: nothing is beside it on one side.
bool is_power_of_two(std::size_t node) { return (node & (node - 1)) == 0; }

}  // namespace

RoomSums::RoomSums(const std::vector<double>& amounts)
    : size_(amounts.size()), leaves_(std::bit_ceil(amounts.size())), sums_(2 * leaves_, 0) {
  for (std::size_t slot = 0; slot < size_; ++slot) {
    sums_[leaves_ + slot] = amounts[slot];
  }
  for (std::size_t node = leaves_ - 1; node > 0; --node) {
    sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
  }
}

void RoomSums::set(std::size_t slot, double amount) {
  std::size_t node = leaves_ + slot;
  sums_[node] = amount;
  while (node > 1) {
    node /= 2;
    sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
  }
}

// Up over whole subtrees as long as they do not suffice, then down into the one that does.
RoomSums::Reached RoomSums::rising(std::size_t first, double wanted) const {
  if (first >= size_) {
    return {size_, wanted};
  }
  std::size_t node = leaves_ + first;
  do {
    while (node % 2 == 0) {
      node /= 2;
    }
    if (wanted <= sums_[node]) {
      while (node < leaves_) {
        node *= 2;
        if (sums_[node] < wanted) {
          wanted -= sums_[node];
          ++node;
        }
      }
      return {node - leaves_, wanted};
    }
    wanted -= sums_[node];
    ++node;
  } while (!is_power_of_two(node));
  return {size_, wanted};
}

RoomSums::Reached RoomSums::falling(std::size_t end, double wanted) const {
  if (end == 0) {
    return {size_, wanted};
  }
  std::size_t node = leaves_ + end;
  do {
    --node;
    while (node > 1 && node % 2 == 1) {
      node /= 2;
    }
    if (wanted <= sums_[node]) {
      while (node < leaves_) {
        node = 2 * node + 1;
        if (sums_[node] < wanted) {
          wanted -= sums_[node];
          --node;
        }
      }
      return {node - leaves_, wanted};
    }
    wanted -= sums_[node];
  } while (!is_power_of_two(node));
  return {size_, wanted};
}

}  // namespace spillway
