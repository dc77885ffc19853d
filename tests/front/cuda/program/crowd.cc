// See crowd.h.
#include "crowd.h"

#include <thread>

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kThreads = 8;
constexpr std::uint64_t kRounds = 60;

void work(const Device& device, std::uint64_t which) {
  device.expect(device.calls.cuCtxSetCurrent(device.context()), "cuCtxSetCurrent");
  const CuStream own = which % 2 == 0 ? device.stream() : device.stream(kCuStreamDefault);
  std::vector<Buffer> buffers;
  for (std::uint64_t i = 0; i < 3; ++i) {
    buffers.push_back({.address = 0, .words = kMiB / 4, .seed = 0});
    device.expect(device.calls.cuMemAlloc_v2(&buffers.back().address, 2 * kMiB), "cuMemAlloc");
    device.fill(buffers.back(), 10 * which + i, nullptr);
  }
  std::uint64_t word = 0;
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    Buffer& buffer = buffers[round % buffers.size()];
    switch ((round + which) % 6) {
      case 0:
        device.expect(device.calls.cuMemcpyDtoH_v2(&word, buffer.address, sizeof word),
                      "cuMemcpyDtoH");
        device.require(word == pattern(buffer.seed, 0), "a word that was copied out");
        break;
      case 1:
        device.expect(device.calls.cuMemFree_v2(buffer.address), "cuMemFree");
        device.expect(device.calls.cuMemAlloc_v2(&buffer.address, 2 * kMiB), "cuMemAlloc");
        device.fill(buffer, 100 * round + which, nullptr);
        break;
      case 2:
        device.expect(device.calls.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
        device.check(buffer, own);
        device.synchronize(own);
        break;
      case 3: {
        Buffer small = device.allocate(4096, own);
        device.fill(small, round, own);
        device.check(small, own);
        device.free(small, own);
        break;
      }
      default:
        device.rewrite(buffer, 100 * round + which, nullptr);
        break;
    }
  }
  for (Buffer& buffer : buffers) {
    device.check(buffer, nullptr);
  }
  device.expect(device.calls.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

}  // namespace

void crowd_on_the_null_stream(const Device& device) {
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&device, i] { work(device, i); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace spillway::cuda::test
