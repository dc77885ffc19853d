// Words that lie in a range of addresses, compared with a look at each.
#include "interpose/cuda/operands/scan_words.h"

#include <gmock/gmock.h>

#include <vector>

#include "base/rng.h"

namespace spillway::cuda {
namespace {

using Words = std::vector<std::uint64_t>;

Words found_in(const Words& words, std::size_t from, std::uint64_t start, Bytes bytes) {
  Words found;
  visit_words_in(std::span(words).subspan(from), start, bytes,
                 [&](std::uint64_t word) { found.push_back(word); });
  return found;
}

TEST(ScanWords, FindsWhatALookAtEachFinds) {
  struct Range {
    std::uint64_t start;
    Bytes bytes;
  };
  constexpr Range kRanges[] = {{0x7f0000200000, Bytes{1} << 46U},
                               {0x7f00fffffe00, 0x400},  // across a word's halves
                               {0x1000, 8},
                               {0xffffffff00000000, 0x80000000},
                               {0, ~Bytes{0}}};
  for (const Range& range : kRanges) {
    Rng random(range.start);
    for (const std::size_t count : {0UL, 1UL, 63UL, 64UL, 65UL, 200UL, 1000UL}) {
      Words words(count);
      for (std::uint64_t& word : words) {
        const std::uint64_t near[] = {range.start - 1, range.start, range.start + range.bytes - 1,
                                      range.start + range.bytes, random.next()};
        word = random.next() % 16 == 0 ? near[random.next() % 5] : random.next() % 4096;
      }
      for (std::size_t from = 0; from < std::min<std::size_t>(count, 3); ++from) {
        Words expected;
        for (std::size_t i = from; i < count; ++i) {
          if (words[i] - range.start < range.bytes) {
            expected.push_back(words[i]);
          }
        }
        EXPECT_EQ(found_in(words, from, range.start, range.bytes), expected) << count;
      }
    }
  }
}

// One at each place, so that none is skipped.
TEST(ScanWords, FindsOneWhereverItIs) {
  constexpr std::uint64_t kStart = 0x7f0000000000;
  for (std::size_t at = 0; at < 300; ++at) {
    Words words(300, 7);
    words[at] = kStart + at;
    EXPECT_EQ(found_in(words, 0, kStart, kMiB), Words{kStart + at});
  }
}

}  // namespace
}  // namespace spillway::cuda
