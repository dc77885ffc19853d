// A list in the order of arrival with two flags for each item, which finds the first or last item
// with a flag in few steps. Layer: engine.
// The device's frames are in such a list (which is the oldest that may leave?), and so are the
// launches (which is the last that needs a block that may leave?).
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/bit_tree.h"

namespace spillway {

// Values are small numbers, each at one position. Positions grow with time; when most of them have
// been given up, the others are numbered anew, which costs a constant time for each that was
// appended since the last time.
class OrderIndex {
 public:
  using Position = std::uint32_t;
  using Value = std::uint32_t;
  static constexpr std::uint32_t kNone = BitTree::kNone;
  enum class Mark : std::uint8_t { kFirst, kSecond };

  // The value comes last, without marks. `moved(value, position)` is called for every other value
  // whose position has changed.
  template <typename Moved>
  Position append(Value value, Moved moved) {
    if (values_.size() >= renumber_at_) {
      renumber(moved);
    }
    const auto position = static_cast<Position>(values_.size());
    values_.push_back(value);
    for (BitTree& tree : marks_) {
      tree.grow(position + 1);
    }
    ++live_;
    return position;
  }

  void remove(Position position) {
    assert(value(position) != kNone);
    values_[position] = kNone;
    for (BitTree& tree : marks_) {
      tree.remove(position);
    }
    --live_;
  }

  void set(Mark mark, Position position, bool on) {
    BitTree& tree = marks_[index_of(mark)];
    if (on) {
      tree.add(position);
    } else {
      tree.remove(position);
    }
  }
  [[nodiscard]] bool has(Mark mark, Position position) const {
    return marks_[index_of(mark)].has(position);
  }

  // Of those with the mark: the first, the last, the next one behind a position. kNone: there
  // is none.
  [[nodiscard]] Value first(Mark mark) const {
    return value_or_none(marks_[index_of(mark)].at_or_after(0));
  }
  [[nodiscard]] Value last(Mark mark) const { return value_or_none(marks_[index_of(mark)].last()); }
  [[nodiscard]] Value after(Mark mark, Position position) const {
    return value_or_none(marks_[index_of(mark)].at_or_after(position + 1));
  }

  [[nodiscard]] Value value(Position position) const {
    return position < values_.size() ? values_[position] : kNone;
  }
  [[nodiscard]] std::size_t size() const { return live_; }

 private:
  static constexpr std::size_t kRoom = 1024;

  static std::size_t index_of(Mark mark) { return static_cast<std::size_t>(mark); }
  [[nodiscard]] Value value_or_none(Position position) const {
    return position == kNone ? kNone : values_[position];
  }

  template <typename Moved>
  void renumber(Moved moved) {
    std::array<BitTree, 2> marks;
    Position next = 0;
    for (BitTree& tree : marks) {
      tree.grow(static_cast<std::uint32_t>(values_.size()));
    }
    for (Position from = 0; from < values_.size(); ++from) {
      if (values_[from] == kNone) {
        continue;
      }
      for (std::size_t i = 0; i < marks.size(); ++i) {
        if (marks_[i].has(from)) {
          marks[i].add(next);
        }
      }
      values_[next] = values_[from];
      if (next != from) {
        moved(values_[next], next);
      }
      ++next;
    }
    values_.resize(next);
    marks_ = std::move(marks);
    renumber_at_ = std::max(kRoom, 2 * values_.size());
  }

  std::vector<Value> values_;  // by position; kNone where it was given up
  std::array<BitTree, 2> marks_;
  std::size_t live_ = 0;
  std::size_t renumber_at_ = kRoom;
};

}  // namespace spillway
