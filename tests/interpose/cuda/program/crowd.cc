// See crowd.h.
#include "crowd.h"

#include <functional>
#include <random>
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

void in_each_thread(const std::function<void(std::uint64_t)>& work) {
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&work, i] { work(i); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// Events that any thread records, and any stream waits for.
struct Shared {
  std::vector<CuEvent> events;
};

// Buffers of its own, each used in the order of one stream at a time: on another when what was put
// there has been waited for.
class Worker {
 public:
  Worker(const Device& device, const Shared& shared, std::uint64_t which)
      : device_(device), shared_(shared), random_(which) {
    device.expect(device.calls.cuCtxSetCurrent(device.context()), "cuCtxSetCurrent");
    streams_ = {nullptr, nullptr, device.stream(kCuStreamDefault), device.stream()};
    for (std::uint64_t i = 0; i < 3; ++i) {
      Buffer made = device.allocate(2 * kMiB, nullptr);
      device.fill(made, 10 * which + i, nullptr);
      buffers_.push_back({.buffer = made, .stream = nullptr});
    }
  }
  void run() {
    for (std::uint64_t round = 0; round < 3 * kRounds; ++round) {
      step(round);
    }
    for (Used& used : buffers_) {
      device_.check(used.buffer, used.stream);
      device_.free(used.buffer, used.stream);
    }
    for (const CuStream stream : streams_) {
      device_.synchronize(stream);
    }
  }

 private:
  struct Used {
    Buffer buffer;
    CuStream stream = nullptr;
  };
  std::uint64_t up_to(std::uint64_t count) { return random_() % count; }
  void step(std::uint64_t round) {
    Used& used = buffers_[up_to(buffers_.size())];
    std::uint64_t word = 0;
    switch (up_to(8)) {
      case 0:
        device_.synchronize(used.stream);
        device_.expect(device_.calls.cuMemcpyDtoH_v2(&word, used.buffer.address, sizeof word),
                       "cuMemcpyDtoH");
        device_.require(word == pattern(used.buffer.seed, 0), "a word that was copied out");
        break;
      case 1:
        device_.free(used.buffer, used.stream);
        used.buffer = device_.allocate(2 * kMiB, used.stream);
        device_.fill(used.buffer, 100 * round, used.stream);
        break;
      case 2:
        device_.expect(
            device_.calls.cuEventRecord(shared_.events[up_to(shared_.events.size())], used.stream),
            "cuEventRecord");
        break;
      case 3:
        device_.expect(
            device_.calls.cuStreamWaitEvent(streams_[up_to(streams_.size())],
                                            shared_.events[up_to(shared_.events.size())], 0),
            "cuStreamWaitEvent");
        break;
      case 4:
        device_.synchronize(used.stream);
        used.stream = streams_[up_to(streams_.size())];
        break;
      default:
        device_.rewrite(used.buffer, 100 * round, used.stream);
        break;
    }
  }

  const Device& device_;
  const Shared& shared_;
  std::minstd_rand random_;
  std::vector<CuStream> streams_;
  std::vector<Used> buffers_;
};

}  // namespace

void crowd_on_the_null_stream(const Device& device) {
  in_each_thread([&device](std::uint64_t which) { work(device, which); });
}

void crowd_with_events(const Device& device) {
  Shared shared;
  for (std::uint64_t i = 0; i < kThreads; ++i) {
    shared.events.push_back(nullptr);
    device.expect(device.calls.cuEventCreate(&shared.events.back(), 0), "cuEventCreate");
  }
  in_each_thread([&](std::uint64_t which) { Worker(device, shared, which).run(); });
}

}  // namespace spillway::cuda::test
