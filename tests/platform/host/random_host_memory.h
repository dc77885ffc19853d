// What a random program believes of its memory on a host platform: which version of what it wrote
// each block holds. Version 0 is zeros.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"

namespace spillway::host {

// After a discard a block may hold anything, which is not checked.
inline constexpr std::uint64_t kAnything = ~std::uint64_t{0};
inline constexpr std::size_t kPageWords = kPageBytes / sizeof(std::uint64_t);
inline constexpr std::size_t kBlockWords = kBlockBytes / sizeof(std::uint64_t);

// Of one block: the versions of its first page and of the rest.
struct Belief {
  std::uint64_t head = 0;
  std::uint64_t rest = 0;
};

struct Buffer {
  std::uint64_t* words = nullptr;  // nullptr: it is not there
  Bytes bytes = 0;
  bool retired = false;
  std::vector<Belief> blocks = {};

  [[nodiscard]] std::size_t words_of(std::size_t block) const {
    return std::min(kBlockBytes, bytes - block * kBlockBytes) / sizeof(std::uint64_t);
  }

  static std::uint64_t word(std::uint64_t version, std::size_t at) {
    return version == 0 ? 0 : version * 0x9e3779b97f4a7c15ULL + at;
  }

  // What is wrong with the block; "" if nothing is.
  [[nodiscard]] std::string problem(std::size_t block) const {
    const std::uint64_t* const start = words + block * kBlockWords;
    const Belief& belief = blocks[block];
    const std::size_t count = words_of(block);
    for (std::size_t at = 0; at < count; at += at < kPageWords ? 61 : 509) {
      const std::uint64_t version = at < kPageWords ? belief.head : belief.rest;
      if (version != kAnything && start[at] != word(version, at)) {
        return fmt::format("block {} holds {:x} at word {}, not version {}", block, start[at], at,
                           version);
      }
    }
    return "";
  }

  // The first page of the block, and the others as well if `all`.
  void write(std::size_t block, std::uint64_t version, bool all) {
    std::uint64_t* const start = words + block * kBlockWords;
    const std::size_t count = words_of(block);
    fill(start, 0, std::min(count, kPageWords), version);
    blocks[block].head = version;
    if (all && count > kPageWords) {
      fill(start, kPageWords, count, version);
      blocks[block].rest = version;
    }
  }
  void forget(std::size_t first_block, std::size_t count) {
    for (std::size_t block = first_block; block < first_block + count; ++block) {
      blocks[block] = {.head = kAnything, .rest = kAnything};
    }
  }

 private:
  static void fill(std::uint64_t* start, std::size_t begin, std::size_t end,
                   std::uint64_t version) {
    for (std::size_t at = begin; at < end; ++at) {
      start[at] = word(version, at);
    }
  }
};

}  // namespace spillway::host
