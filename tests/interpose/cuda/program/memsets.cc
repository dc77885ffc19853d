// See memsets.h.
#include "memsets.h"

#include <unistd.h>

#include <cstring>

namespace spillway::cuda::test {

void memsets(const Device& device) {
  constexpr std::uint64_t kBytes = 4 << 20U;
  constexpr unsigned kLongestS = 60;
  const CuStream stream = device.stream();
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < 12; ++i) {
    buffers.push_back(device.allocate(kBytes, stream));
    device.fill(buffers.back(), i, stream);
  }
  device.synchronize(stream);
  ::alarm(kLongestS);
  device.calls.hold_stream(stream, 1);
  for (std::uint64_t i = 0; i < 8; ++i) {
    device.check(buffers[i], stream);
  }
  // With neither end where words begin.
  constexpr std::uint64_t kFrom = 3;
  constexpr std::uint64_t kTo = kBytes - 5;
  for (std::uint64_t i = 8; i < buffers.size(); ++i) {
    device.expect(device.calls.cuMemsetD8Async(buffers[i].address + kFrom,
                                               static_cast<unsigned char>(i), kTo - kFrom, stream),
                  "cuMemsetD8Async");
  }
  // Whole, and used again.
  device.expect(device.calls.cuMemsetD8Async(buffers[0].address, 0, kBytes, stream),
                "cuMemsetD8Async");
  device.add(buffers[0], buffers[1], stream);
  device.calls.hold_stream(stream, 0);
  device.synchronize(stream);
  ::alarm(0);
  for (std::uint64_t i = 8; i < buffers.size(); ++i) {
    const std::vector<std::uint64_t> words = device.words_of(buffers[i]);
    for (std::uint64_t j = 0; j < words.size(); ++j) {
      std::uint64_t expected = pattern(i, j);
      for (std::uint64_t k = 0; k < sizeof expected; ++k) {
        const std::uint64_t at = sizeof expected * j + k;
        if (at >= kFrom && at < kTo) {
          std::memset(reinterpret_cast<char*>(&expected) + k, static_cast<int>(i), 1);
        }
      }
      device.require(words[j] == expected, "a word that was set, or one beside it");
    }
  }
  const std::vector<std::uint64_t> sums = device.words_of(buffers[0]);
  for (std::uint64_t j = 0; j < sums.size(); ++j) {
    device.require(sums[j] == pattern(1, j), "a word that was added to what was set");
  }
}

}  // namespace spillway::cuda::test
