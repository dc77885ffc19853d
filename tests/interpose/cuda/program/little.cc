// See little.h.
#include "little.h"

#include <cstdio>

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

void use(const Device& device, std::vector<Buffer>& buffers, std::uint64_t round, CuStream stream) {
  for (Buffer& buffer : buffers) {
    round == 1 ? device.fill(buffer, round, stream) : device.rewrite(buffer, round, stream);
  }
  device.synchronize(stream);
}

}  // namespace

void all_there_is(const Device& device) {
  constexpr std::size_t kMost = 40;
  constexpr std::uint64_t kBufferBytes = 16 * kMiB;
  const CuStream stream = device.stream();
  // The fake driver's device memory is the system's as well: it is there before the rest is asked
  // for.
  std::vector<Buffer> buffers{device.allocate(kBufferBytes, stream),
                              device.allocate(kBufferBytes, stream)};
  use(device, buffers, 1, stream);
  while (buffers.size() < kMost) {
    CuAddress address = 0;
    if (device.calls.cuMemAllocAsync(&address, kBufferBytes, stream) != CuResult::kSuccess) {
      break;
    }
    buffers.push_back({.address = address, .words = kBufferBytes / 8, .seed = 0});
  }
  std::printf("buffers %zu\n", buffers.size());
  for (std::uint64_t round = 1; round <= 3; ++round) {
    use(device, buffers, round, stream);
  }
  const std::vector<char> own(8 * kMiB, 1);
  use(device, buffers, 3, stream);
  device.require(own.back() == 1, "memory of its own");
}

}  // namespace spillway::cuda::test
