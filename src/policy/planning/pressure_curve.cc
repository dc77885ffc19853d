// See pressure_curve.h.
#include "policy/planning/pressure_curve.h"

#include <algorithm>
#include <bit>

namespace spillway {
namespace {

// Below it every whole number is a double.
constexpr std::uint64_t kExactBelow = std::uint64_t{1} << 53U;
constexpr std::size_t kLeafSlots = 8;

}  // namespace

PressureCurve::PressureCurve(const std::vector<Bytes>& bytes, Bytes limit_bytes,
                             Bytes granularity_bytes, const std::vector<std::uint64_t>& weights)
    : slots_(bytes.size()),
      leaves_(std::bit_ceil((bytes.size() + kLeafSlots - 1) / kLeafSlots)),
      limit_bytes_(limit_bytes),
      shift_(static_cast<unsigned>(std::countr_zero(granularity_bytes | limit_bytes))),
      nodes_(2 * leaves_) {
  weight_before_.push_back(0);
  for (std::size_t slot = 0; slot < slots_; ++slot) {
    amounts_.push_back(units(bytes[slot]) - units(limit_bytes));
    weight_before_.push_back(weight_before_.back() + weights[slot]);
    nodes_[leaves_ + slot / kLeafSlots].weight += weights[slot];
  }
  for (std::size_t leaf = 0; leaf < leaves_; ++leaf) {
    gather_leaf(leaves_ + leaf, leaf * kLeafSlots);
  }
  for (std::size_t node = leaves_ - 1; node > 0; --node) {
    nodes_[node].weight = nodes_[2 * node].weight + nodes_[2 * node + 1].weight;
    gather(node);
  }
}

void PressureCurve::gather_leaf(std::size_t node, std::size_t first) {
  Node here{.added = nodes_[node].added, .weight = nodes_[node].weight};
  for (std::size_t slot = first; slot < std::min(first + kLeafSlots, slots_); ++slot) {
    const std::int64_t amount = amounts_[slot] + here.added;
    here.least = std::min(here.least, amount);
    here.most = std::max(here.most, amount);
    here.weighted += static_cast<std::uint64_t>(amount) * weight_of(slot);
  }
  nodes_[node] = here;
}

void PressureCurve::gather(std::size_t node) {
  Node& here = nodes_[node];
  const Node& left = nodes_[2 * node];
  const Node& right = nodes_[2 * node + 1];
  here.least = std::min(left.least, right.least) + here.added;
  here.most = std::max(left.most, right.most) + here.added;
  here.weighted =
      left.weighted + right.weighted + static_cast<std::uint64_t>(here.added) * here.weight;
}

template <typename Visit>
void PressureCurve::in_ring(std::size_t first, std::size_t end, Visit visit) const {
  if (first >= end) {
    return;
  }
  const std::size_t from = first % slots_;
  const std::size_t to = from + (end - first);
  visit(Range{from, std::min(to, slots_)});
  if (to > slots_) {
    visit(Range{0, to - slots_});
  }
}

void PressureCurve::change(std::size_t first, std::size_t end, std::int64_t amount) {
  in_ring(first, end, [&](Range range) { change(1, {0, leaves_ * kLeafSlots}, range, amount); });
}

void PressureCurve::change(std::size_t node, Range all, Range changed, std::int64_t amount) {
  if (changed.first >= all.end || all.first >= changed.end) {
    return;
  }
  Node& here = nodes_[node];
  if (changed.first <= all.first && all.end <= changed.end) {
    here.least += amount;
    here.most += amount;
    here.added += amount;
    here.weighted += static_cast<std::uint64_t>(amount) * here.weight;
    return;
  }
  if (node >= leaves_) {
    for (std::size_t slot = std::max(all.first, changed.first);
         slot < std::min(all.end, changed.end); ++slot) {
      amounts_[slot] += amount;
    }
    gather_leaf(node, all.first);
    return;
  }
  const std::size_t middle = (all.first + all.end) / 2;
  change(2 * node, {all.first, middle}, changed, amount);
  change(2 * node + 1, {middle, all.end}, changed, amount);
  gather(node);
}

bool PressureCurve::over_limit_with(std::size_t first, std::size_t end, Bytes bytes) const {
  if (nodes_[1].most + units(bytes) <= 0) {
    return false;
  }
  bool over = false;
  in_ring(first, end, [&](Range range) {
    over = over || most_in(1, {0, leaves_ * kLeafSlots}, range, 0) + units(bytes) > 0;
  });
  return over;
}

std::int64_t PressureCurve::most_in(std::size_t node, Range all, Range asked,
                                    std::int64_t above) const {
  if (asked.first >= all.end || all.first >= asked.end) {
    return -kInfinite;
  }
  const Node& here = nodes_[node];
  if (asked.first <= all.first && all.end <= asked.end) {
    return here.most + above;
  }
  if (node >= leaves_) {
    std::int64_t most = -kInfinite;
    for (std::size_t slot = std::max(all.first, asked.first); slot < std::min(all.end, asked.end);
         ++slot) {
      most = std::max(most, amounts_[slot] + here.added + above);
    }
    return most;
  }
  const std::size_t middle = (all.first + all.end) / 2;
  return std::max(most_in(2 * node, {all.first, middle}, asked, above + here.added),
                  most_in(2 * node + 1, {middle, all.end}, asked, above + here.added));
}

double PressureCurve::relief(std::size_t first, std::size_t end, Bytes bytes) const {
  const std::int64_t amount = units(bytes);
  std::uint64_t weight = 0;
  in_ring(first, end, [&](Range range) { weight += weight_in(range); });
  const auto unit_bytes = static_cast<double>(Bytes{1} << shift_);
  if (weight < kExactBelow / std::max<std::uint64_t>(static_cast<std::uint64_t>(amount), 1)) {
    std::uint64_t sum = 0;
    in_ring(first, end, [&](Range range) {
      sum += relief_in(1, {0, leaves_ * kLeafSlots}, range, 0, amount);
    });
    return static_cast<double>(sum) * unit_bytes;
  }
  double sum = 0;
  in_ring(first, end, [&](Range range) {
    for (std::size_t slot = range.first; slot < range.end; ++slot) {
      if (const std::int64_t over = amount_at(slot); over > 0) {
        sum += static_cast<double>(std::min(amount, over)) * static_cast<double>(weight_of(slot));
      }
    }
  });
  return sum * unit_bytes;
}

// Only called for nodes that have slots of the range.
std::uint64_t PressureCurve::relief_in(std::size_t node, Range all, Range asked, std::int64_t above,
                                       std::int64_t amount) const {
  const Node& here = nodes_[node];
  const std::int64_t most = here.most + above;
  if (most <= 0) {
    return 0;
  }
  if (asked.first <= all.first && all.end <= asked.end) {
    const std::int64_t least = here.least + above;
    if (least >= amount) {
      return static_cast<std::uint64_t>(amount) * here.weight;
    }
    if (least >= 0 && most <= amount) {
      return here.weighted + static_cast<std::uint64_t>(above) * here.weight;
    }
  }
  above += here.added;
  std::uint64_t sum = 0;
  if (node >= leaves_) {
    for (std::size_t slot = std::max(all.first, asked.first); slot < std::min(all.end, asked.end);
         ++slot) {
      const std::int64_t over = std::clamp<std::int64_t>(amounts_[slot] + above, 0, amount);
      sum += static_cast<std::uint64_t>(over) * weight_of(slot);
    }
    return sum;
  }
  const std::size_t middle = (all.first + all.end) / 2;
  if (asked.first < middle) {
    sum += relief_in(2 * node, {all.first, middle}, asked, above, amount);
  }
  if (middle < asked.end) {
    sum += relief_in(2 * node + 1, {middle, all.end}, asked, above, amount);
  }
  return sum;
}

std::int64_t PressureCurve::amount_at(std::size_t slot) const {
  std::int64_t amount = amounts_[slot];
  for (std::size_t node = leaves_ + slot / kLeafSlots; node > 0; node /= 2) {
    amount += nodes_[node].added;
  }
  return amount;
}

std::vector<Bytes> PressureCurve::bytes() const {
  std::vector<Bytes> all;
  all.reserve(slots_);
  for (std::size_t slot = 0; slot < slots_; ++slot) {
    all.push_back(limit_bytes_ + (static_cast<Bytes>(amount_at(slot)) << shift_));
  }
  return all;
}

}  // namespace spillway
