// What the array of streaming_bench holds, and what every pass over it must find. The sums of pages
// are kept aside and brought up to date by arithmetic, so that a pass is checked against something
// that never was in the memory under test. Part of streaming_bench.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "base/units.h"

namespace spillway::bench {

inline constexpr std::size_t kPageWords = kPageBytes / sizeof(std::uint64_t);
inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kLineWords = kLineBytes / sizeof(std::uint64_t);

// What is used of a page that is visited.
enum class Part : std::uint8_t { kPage, kLine };

[[nodiscard]] constexpr std::size_t words_of(Part part) {
  return part == Part::kPage ? kPageWords : kLineWords;
}
// One page's line differs from the next one's, so that they do not share a set of the cache.
[[nodiscard]] constexpr std::size_t first_word_of(Part part, std::size_t page) {
  return part == Part::kPage ? 0 : page % (kPageWords / kLineWords) * kLineWords;
}
[[nodiscard]] constexpr std::uint64_t initial_word(std::size_t page, std::size_t word) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;
  return page * kOdd + word;
}

// A page in the wrong place changes the checksum of a pass.
[[nodiscard]] constexpr std::uint64_t weighted(std::size_t page, std::uint64_t sum) {
  return sum * (2 * page + 1);
}

class ExpectedSums {
 public:
  explicit ExpectedSums(std::size_t pages) {
    for (std::size_t page = 0; page < pages; ++page) {
      Sums sums;
      for (std::size_t word = 0; word < kPageWords; ++word) {
        sums.page += initial_word(page, word);
      }
      const std::size_t first = first_word_of(Part::kLine, page);
      for (std::size_t word = first; word < first + kLineWords; ++word) {
        sums.line += initial_word(page, word);
      }
      sums_.push_back(sums);
    }
  }

  // Of a pass over `order` that reads, or that adds one to each word and sums what it wrote.
  [[nodiscard]] std::uint64_t pass(std::span<const std::uint32_t> order, Part part, bool writes) {
    std::uint64_t checksum = 0;
    for (const std::uint32_t page : order) {
      Sums& sums = sums_[page];
      if (writes) {
        sums.page += words_of(part);
        sums.line += kLineWords;
      }
      checksum += weighted(page, part == Part::kPage ? sums.page : sums.line);
    }
    return checksum;
  }

 private:
  struct Sums {
    std::uint64_t page = 0;
    std::uint64_t line = 0;
  };
  std::vector<Sums> sums_;
};

}  // namespace spillway::bench
