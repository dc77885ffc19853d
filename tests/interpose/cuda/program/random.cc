// See random.h.
#include "random.h"

#include <unistd.h>

#include <cstring>
#include <thread>

#include "random_worker.h"

namespace spillway::cuda::test {
namespace {

constexpr unsigned kLongestS = 120;
constexpr std::uint64_t kSharedBytes = 3 << 20U;

// What is slow now and then ends in another order.
void make_uneven(const Device& device, std::uint64_t seed) {
  FakeCudaConfig config;
  device.calls.default_config(&config);
  config.seed = seed;
  config.copy_slow = 0.03;
  config.stream_stands = 0.03;
  config.slow_ns = 1'000'000;
  device.calls.change(&config);
}

void share(Common& common, const Device& device) {
  const CuStream stream = device.stream();
  for (std::uint64_t i = 0; i < 3; ++i) {
    auto block = std::make_unique<Block>();
    block->bytes.resize(kSharedBytes / (i + 1) / 8 * 8);
    block->shared = true;
    block->last = "the beginning";
    device.expect(device.calls.cuMemAllocAsync(&block->address, block->bytes.size(), stream),
                  "cuMemAllocAsync");
    fill_words(block->at(0), block->words(), i);
    const LaunchWay how{.stream = stream};
    device.expect(common.kernels.fill(how, block->address, block->words(), i), "a launch");
    common.shared.push_back(std::move(block));
  }
  device.synchronize(stream);
}

void require_shared(const Common& common, const Device& device) {
  for (const std::unique_ptr<Block>& block : common.shared) {
    const Buffer buffer{block->address, block->words(), 0};
    device.require(
        std::memcmp(device.words_of(buffer).data(), block->bytes.data(), block->bytes.size()) == 0,
        "what threads share and only read");
  }
}

}  // namespace

void random_program(const Device& device, std::uint64_t seed, bool trace) {
  ::alarm(kLongestS);
  RandomKernels::tell_of_crashes(seed);
  if (seed % 2 == 0) {
    make_uneven(device, seed);
  }
  Common common{
      .device = device, .kernels = RandomKernels(device.calls), .seed = seed, .trace = trace};
  common.threads = seed % 3 == 0 ? 2 : 1;
  void* pinned = nullptr;
  device.expect(device.calls.cuMemHostAlloc(&pinned, kPinnedBytes, 0), "cuMemHostAlloc");
  fill_words(static_cast<std::uint64_t*>(pinned), kPinnedBytes / 8, seed);
  common.pinned = static_cast<const char*>(pinned);
  share(common, device);
  CuContext context = nullptr;
  device.expect(device.calls.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < common.threads; ++i) {
    threads.emplace_back([&common, &device, context, i] {
      device.expect(device.calls.cuCtxSetCurrent(context), "cuCtxSetCurrent");
      Worker(common, i).run();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  require_shared(common, device);
  ::alarm(0);
}

}  // namespace spillway::cuda::test
