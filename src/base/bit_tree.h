// A set of small numbers that finds its neighbours in a few steps: a bit for each number, and above
// every 64 bits one that says whether any of them is set. Ground floor.
// 100,000 numbers are three levels, so every operation touches at most three words, or five on a
// way up and down again. Memory: one bit a number, and a sixty-third of that.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace spillway {

class BitTree {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  // Room for the numbers 0 to size - 1. Those that are set stay so; shrinking is not possible.
  void grow(std::uint32_t size) {
    if (size <= size_) {
      return;
    }
    size_ = size;
    std::size_t words = size;
    for (std::size_t level = 0; level == 0 || words > 1; ++level) {
      words = (words + 63) / 64;
      if (level == levels_.size()) {
        // A new root must know of what was set under the old one.
        levels_.emplace_back(words, 0);
        for (std::size_t i = 0; level > 0 && i < levels_[level - 1].size(); ++i) {
          levels_[level][i / 64] |= (levels_[level - 1][i] != 0 ? Word{1} : Word{0}) << (i % 64);
        }
      }
      levels_[level].resize(words, 0);
    }
  }

  [[nodiscard]] bool has(std::uint32_t number) const {
    return number < size_ && (levels_[0][number / 64] >> (number % 64) & 1U) != 0;
  }

  void add(std::uint32_t number) {
    assert(number < size_);
    for (std::vector<Word>& level : levels_) {
      level[number / 64] |= Word{1} << (number % 64);
      number /= 64;
    }
  }

  void remove(std::uint32_t number) {
    assert(number < size_);
    for (std::vector<Word>& level : levels_) {
      level[number / 64] &= ~(Word{1} << (number % 64));
      if (level[number / 64] != 0) {
        return;
      }
      number /= 64;
    }
  }

  void clear() {
    for (std::vector<Word>& level : levels_) {
      level.assign(level.size(), 0);
    }
  }

  // The smallest number that is at least `from`; kNone if there is none.
  [[nodiscard]] std::uint32_t at_or_after(std::uint32_t from) const {
    std::uint32_t at = from;
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      const std::size_t word = at / 64;
      if (word >= levels_[level].size()) {
        return kNone;
      }
      const Word rest = levels_[level][word] & (~Word{0} << (at % 64));
      if (rest != 0) {
        return first_below(level, (at & ~63U) + static_cast<std::uint32_t>(std::countr_zero(rest)));
      }
      at = static_cast<std::uint32_t>(word) + 1;
    }
    return kNone;
  }

  // The largest number that is less than `below`; kNone if there is none.
  [[nodiscard]] std::uint32_t before(std::uint32_t below) const {
    std::uint32_t at = std::min(below, size_);
    for (std::size_t level = 0; level < levels_.size() && at > 0; ++level) {
      const std::uint32_t word = (at - 1) / 64;
      const std::uint32_t bits = (at - 1) % 64 + 1;  // of the word that come before `at`
      const Word rest = levels_[level][word] & (~Word{0} >> (64 - bits));
      if (rest != 0) {
        return last_below(level,
                          word * 64 + 63 - static_cast<std::uint32_t>(std::countl_zero(rest)));
      }
      at = word;
    }
    return kNone;
  }

  // The largest number; kNone if there is none.
  [[nodiscard]] std::uint32_t last() const { return before(size_); }

 private:
  using Word = std::uint64_t;

  // The smallest number under this bit of this level.
  [[nodiscard]] std::uint32_t first_below(std::size_t level, std::uint32_t at) const {
    while (level-- > 0) {
      at = at * 64 + static_cast<std::uint32_t>(std::countr_zero(levels_[level][at]));
    }
    return at;
  }

  // The largest one.
  [[nodiscard]] std::uint32_t last_below(std::size_t level, std::uint32_t at) const {
    while (level-- > 0) {
      at = at * 64 + 63 - static_cast<std::uint32_t>(std::countl_zero(levels_[level][at]));
    }
    return at;
  }

  std::uint32_t size_ = 0;
  std::vector<std::vector<Word>> levels_;  // numbers first, the root last
};

}  // namespace spillway
