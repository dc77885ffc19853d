// Of many words, those that lie in a range of addresses: as fast as memory is read, as long as
// nearly all of them lie elsewhere. Layer: interpose, cuda. Anywhere.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "base/units.h"

namespace spillway::cuda {

inline constexpr std::size_t kScannedTogether = 64;  // words

// Whether some of these have an upper half that is `first` or one of the `more` behind it.
[[nodiscard]] inline bool some_may_lie_in(std::span<const std::uint64_t, kScannedTogether> words,
                                          std::uint32_t first, std::uint32_t more) {
  using Words [[gnu::vector_size(16)]] = std::uint64_t;
  using Halves [[gnu::vector_size(16)]] = std::uint32_t;
  constexpr std::uint64_t kUpper = ~std::uint64_t{0} << 32U;
  Halves found{};
  for (std::size_t i = 0; i < words.size(); i += 4) {
    Words one;
    Words other;
    std::memcpy(&one, &words[i], sizeof one);
    std::memcpy(&other, &words[i + 2], sizeof other);
    const auto halves = reinterpret_cast<Halves>((one >> 32U) | (other & kUpper));
    found |= reinterpret_cast<Halves>((halves - first) <= (Halves{} + more));
  }
  Words any;
  std::memcpy(&any, &found, sizeof any);
  return (any[0] | any[1]) != 0;
}

// Calls `visit` with each that does, in their order. The range has some bytes.
template <typename Visit>
void visit_words_in(std::span<const std::uint64_t> words, std::uint64_t start, Bytes bytes,
                    const Visit& visit) {
  const auto first = static_cast<std::uint32_t>(start >> 32U);
  const auto last = static_cast<std::uint32_t>((start + bytes - 1) >> 32U);
  const auto look_at = [&](std::span<const std::uint64_t> some) {
    for (const std::uint64_t word : some) {
      if (word - start < bytes) {
        visit(word);
      }
    }
  };
  for (; words.size() >= kScannedTogether; words = words.subspan(kScannedTogether)) {
    const auto some = words.first<kScannedTogether>();
    if (some_may_lie_in(some, first, last - first)) {
      look_at(some);
    }
  }
  look_at(words);
}

}  // namespace spillway::cuda
