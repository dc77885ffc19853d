// See waits.h.
#include "waits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <span>
#include <thread>

namespace spillway::cuda::test {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kWords = kMiB / 8;
constexpr unsigned kGlobal = 0;
constexpr unsigned kThreadLocal = 1;
constexpr unsigned kRelaxed = 2;

Buffer allocate_plainly(const Device& device, std::uint64_t bytes) {
  Buffer buffer{.address = 0, .words = bytes / 8, .seed = 0};
  device.expect(device.calls.cuMemAlloc_v2(&buffer.address, bytes), "cuMemAlloc");
  return buffer;
}

std::span<std::uint64_t> pinned(const Device& device, std::uint64_t words) {
  void* memory = nullptr;
  device.expect(device.calls.cuMemHostAlloc(&memory, 8 * words, 0), "cuMemHostAlloc");
  return {static_cast<std::uint64_t*>(memory), words};
}

// The stream stands still for a while, and whoever waits for it returns afterwards. However busy
// the machine is, a call that does not wait returns before: it is given seconds.
class Late {
 public:
  Late(const Device& device, CuStream stream, bool waits = true)
      : device_(device), stream_(stream) {
    device.calls.hold_stream(stream, 1);
    thread_ = std::thread([this, waits] {
      const auto end =
          std::chrono::steady_clock::now() + std::chrono::milliseconds(waits ? 100 : 20'000);
      while (!returned_ && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      gone_ = true;
      device_.calls.hold_stream(stream_, 0);
    });
  }
  Late(const Late&) = delete;
  Late& operator=(const Late&) = delete;
  ~Late() { thread_.join(); }
  [[nodiscard]] bool gone() const { return gone_; }
  void returned() { returned_ = true; }

 private:
  const Device& device_;
  CuStream stream_;
  std::atomic<bool> returned_{false};
  std::atomic<bool> gone_{false};
  std::thread thread_;
};

void require_pattern(const Device& device, std::span<const std::uint64_t> words,
                     std::uint64_t seed) {
  for (std::uint64_t i = 0; i < words.size(); ++i) {
    device.require(words[i] == pattern(seed, i), "a result behind a call that waits");
  }
}

}  // namespace

void frees_wait(const Device& device) {
  const CuStream stream = device.stream();
  std::vector<Buffer> tables;
  for (std::uint64_t i = 0; i < 10; ++i) {
    tables.push_back(allocate_plainly(device, 4 * kMiB));
    device.fill(tables.back(), i, stream);
  }
  const auto out = pinned(device, kWords);
  const auto results = [&](std::uint64_t seed, const std::function<void()>& call, bool waits) {
    device.synchronize(stream);
    std::fill(out.begin(), out.end(), 0);
    Buffer made = allocate_plainly(device, 8 * kWords);
    Late late(device, stream, waits);
    device.fill(made, seed, stream);
    device.expect(
        device.calls.cuMemcpyDtoHAsync_v2(out.data(), made.address, 8 * made.words, stream),
        "cuMemcpyDtoHAsync");
    for (Buffer& table : tables) {
      device.check(table, stream);
    }
    call();
    device.require(late.gone() == waits, waits ? "a call that waits" : "one that does not");
    late.returned();
    if (waits) {
      require_pattern(device, out, seed);
    }
    device.expect(device.calls.cuMemFree_v2(made.address), "cuMemFree");
    require_pattern(device, out, seed);
  };
  for (std::uint64_t round = 0; round < 3; ++round) {
    const Buffer scratch = allocate_plainly(device, kMiB);
    results(
        100 + round,
        [&] { device.expect(device.calls.cuMemFree_v2(scratch.address), "cuMemFree"); }, true);
    const auto more = pinned(device, kWords);
    results(
        200 + round,
        [&] { device.expect(device.calls.cuMemFreeHost(more.data()), "cuMemFreeHost"); }, true);
    std::vector<std::uint64_t> own(kWords);
    device.expect(device.calls.cuMemHostRegister_v2(own.data(), 8 * kWords, 0),
                  "cuMemHostRegister");
    results(
        300 + round,
        [&] { device.expect(device.calls.cuMemHostUnregister(own.data()), "cuMemHostUnregister"); },
        true);
    // A pool's memory waits for nobody, nor does an allocation.
    const Buffer pooled = device.allocate(kMiB, stream);
    results(
        400 + round, [&] { device.expect(device.calls.cuMemFree_v2(pooled.address), "cuMemFree"); },
        false);
    Buffer more_memory;
    results(
        500 + round, [&] { more_memory = allocate_plainly(device, kMiB); }, false);
    device.expect(device.calls.cuMemFree_v2(more_memory.address), "cuMemFree");
    device.expect(device.calls.cuMemFree_v2(more_memory.address), "a second cuMemFree",
                  CuResult::kInvalidValue);
  }
  device.expect(device.calls.cuMemFreeHost(out.data()), "cuMemFreeHost");
}

void frees_beside_captures(const Device& device) {
  const CuStream stream = device.stream();
  const CuStream capturing = device.stream();
  Buffer used = allocate_plainly(device, 4 * kMiB);
  const auto free_beside = [&](unsigned mode, bool other_thread) {
    const Buffer scratch = allocate_plainly(device, kMiB);
    const bool refused = other_thread ? mode == kGlobal : mode != kRelaxed;
    device.expect(device.calls.cuStreamBeginCapture_v2(capturing, mode), "cuStreamBeginCapture");
    const Late late(device, stream);
    device.fill(used, mode, stream);
    const auto free_it = [&] {
      device.expect(device.calls.cuCtxSetCurrent(device.context()), "cuCtxSetCurrent");
      device.expect(device.calls.cuMemFree_v2(scratch.address), "cuMemFree beside a capture",
                    refused ? CuResult::kCaptureUnsupported : CuResult::kSuccess);
    };
    if (other_thread) {
      std::thread(free_it).join();
    } else {
      free_it();
    }
    device.require(late.gone() == !refused, "a free beside a capture waits if it may");
    CuGraph graph = nullptr;
    device.expect(device.calls.cuStreamEndCapture(capturing, &graph), "cuStreamEndCapture",
                  refused ? CuResult::kCaptureInvalidated : CuResult::kSuccess);
    if (refused) {
      device.expect(device.calls.cuMemFree_v2(scratch.address), "cuMemFree");
    }
    device.check(used, stream);
  };
  for (const unsigned mode : {kGlobal, kThreadLocal, kRelaxed}) {
    free_beside(mode, false);
    free_beside(mode, true);
  }
}

}  // namespace spillway::cuda::test
