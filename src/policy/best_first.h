// Values by number, and which is the best of them. Layer: policy.
// A tournament: a value that changes plays one match a level, until it loses where it lost before.
// A heap would have to take it out and put it in again.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace spillway {

class BestFirst {
 public:
  // Of `count` numbers, none of which has a value.
  explicit BestFirst(std::size_t count) : leaves_(std::bit_ceil(count)), nodes_(2 * leaves_) {
    for (std::size_t number = 0; number < leaves_; ++number) {
      nodes_[leaves_ + number].number = static_cast<std::uint32_t>(number);
    }
    for (std::size_t node = leaves_ - 1; node > 0; --node) {
      nodes_[node] = better(nodes_[2 * node], nodes_[2 * node + 1]);
    }
  }

  void set(std::size_t number, double value) {
    std::size_t node = leaves_ + number;
    auto winner = static_cast<std::uint32_t>(number);
    nodes_[node] = {value, winner};
    while (node > 1) {
      const Entrant& other = nodes_[node ^ 1U];
      if (other.value > value || (other.value == value && other.number < winner)) {
        value = other.value;
        winner = other.number;
      }
      node /= 2;
      if (nodes_[node].number == winner && nodes_[node].value == value) {
        return;
      }
      nodes_[node] = {value, winner};
    }
  }
  void clear(std::size_t number) { set(number, kNone); }

  [[nodiscard]] bool empty() const { return best_value() == kNone; }
  // The highest value; of equal ones the first number.
  [[nodiscard]] std::size_t best() const { return nodes_[1].number; }
  [[nodiscard]] double best_value() const { return nodes_[1].value; }

 private:
  static constexpr double kNone = -std::numeric_limits<double>::infinity();
  struct Entrant {
    double value = kNone;
    std::uint32_t number = 0;
  };
  static Entrant better(const Entrant& left, const Entrant& right) {
    return right.value > left.value ? right : left;
  }

  std::size_t leaves_;
  std::vector<Entrant> nodes_;  // the winner of each; children are 2n and 2n + 1, the root is 1
};

}  // namespace spillway
