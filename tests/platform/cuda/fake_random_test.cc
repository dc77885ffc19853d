// A random program on the fake driver, as a platform would run it: more buffers than the device has
// room for, every launch behind a stream wait on its stream, and a second thread in a context of
// its own that makes room, maps, copies in and lets the copy stream satisfy the stream waits. A
// model of the buffers says what every word must be in the end. And the same with a mistake, which
// must be noticed. SPILLWAY_SEED replays one seed.
#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>

#include "base/rng.h"
#include "base/sanitizers.h"
#include "platform/cuda/fake_device.h"

namespace spillway::cuda {
namespace {

constexpr std::size_t kBuffers = 12;
constexpr std::size_t kFrames = 5;  // of them on the device
constexpr std::size_t kStreams = 4;
constexpr int kLaunches = 150;
#if SPILLWAY_THREAD_SANITIZER
constexpr std::uint64_t kMostBufferWords = 4096;
constexpr std::uint64_t kFakeSeeds = 4;
#else
constexpr std::uint64_t kMostBufferWords = kTwoMiB / 8;
constexpr std::uint64_t kFakeSeeds = 24;
#endif

enum class Mistake { kNone, kEvictsWhatIsUsed, kOpensBeforeTheCopy, kForgetsToCopyOut, kLeaks };

struct Launch {
  std::uint64_t number;  // from 1
  std::size_t stream;
  std::uint64_t gate;  // the value that lets it go
  std::vector<std::size_t> buffers;
};

struct Buffer {
  std::uint64_t words = 0;
  CuAddress address = 0;
  std::uint64_t* host = nullptr;     // its contents while it has no frame
  std::vector<std::uint64_t> model;  // what the program has written
  // Of the program's thread.
  CuEvent last_event = nullptr;  // recorded behind its last use
  std::size_t last_stream = 0;
  // Of the mover.
  CuMemHandle frame = 0;          // 0: none
  std::uint64_t last_launch = 0;  // that was served
};

class RandomProgram : public FakeDevice {
 protected:
  void SetUp() override {}

  void run(std::uint64_t seed, Mistake wrong) {
    mistake = wrong;
    rng = Rng(seed);
    config.seed = seed;
    config.device_bytes = kFrames * kTwoMiB;
    config.stuck_after_ns = 20'000'000'000;
    if (rng.chance(0.5)) {
      config.create_fails = config.copy_refused = config.copy_slow = config.stream_stands = 0.1;
      config.slow_ns = 500'000;
      config.launch_ns = static_cast<std::int64_t>(rng.below(300'000));
      config.copy_bytes_per_s = 2e9;
    }
    start();
    make();
    std::thread mover([this] { serve_all(); });
    for (int i = 0; i < kLaunches; ++i) {
      issue();
    }
    {
      const std::lock_guard lock(mutex);
      ended = true;
      changed.notify_all();
    }
    mover.join();
  }

  void make() {
    gates = pinned(kStreams);
    markers = pinned(kStreams);
    for (std::size_t i = 0; i < kStreams; ++i) {
      streams.push_back(stream());
    }
    const CuAddress space = reserve(kBuffers * kTwoMiB);
    for (std::size_t i = 0; i < kBuffers; ++i) {
      Buffer& buffer = buffers.emplace_back();
      buffer.words = 1 + rng.below(rng.chance(0.3) ? kMostBufferWords : 1000);
      buffer.address = space + i * kTwoMiB;
      buffer.host = pinned(buffer.words);
      buffer.model.assign(buffer.words, 0);
    }
    launched.assign(kStreams, 0);
    for (std::size_t i = 0; i < kFrames; ++i) {
      CuMemHandle handle = 0;
      CuAllocationProperties properties{};
      properties.type = CuAllocationType::kPinned;
      properties.location = {CuLocationType::kDevice, 0};
      again([&] { return driver.memory_create(&handle, kTwoMiB, &properties, 0); });
      free_frames.push_back(handle);
    }
  }

  // Until it works: what is injected fails now and then.
  template <typename Call>
  static void again(const Call& call) {
    for (int i = 0; i < 100 && call() != CuResult::kSuccess; ++i) {
    }
  }

  void must(CuResult result) { refused += result == CuResult::kSuccess ? 0 : 1; }

  // --- the program's thread

  void issue() {
    Launch made{.number = ++issued, .stream = rng.below(kStreams), .gate = 0, .buffers = {}};
    CuStream on = streams[made.stream];
    const std::size_t to = rng.below(kBuffers);
    const std::size_t from = rng.below(kBuffers);
    const bool adds = rng.chance(0.5) && to != from;
    made.buffers = adds ? std::vector{to, from} : std::vector{to};
    for (const std::size_t b : made.buffers) {
      if (buffers[b].last_event != nullptr && buffers[b].last_stream != made.stream) {
        must(driver.stream_wait_event(on, buffers[b].last_event, 0));
      }
    }
    made.gate = ++launched[made.stream];
    must(driver.stream_wait_value(on, address_of(gates + made.stream), made.gate, kCuWaitAtLeast));
    Buffer& target = buffers[to];
    if (adds) {
      const std::uint64_t words = std::min(target.words, buffers[from].words);
      must(launch(test::kernels().add, on, target.address, buffers[from].address, words));
      for (std::uint64_t i = 0; i < words; ++i) {
        target.model[i] += buffers[from].model[i];
      }
    } else {
      const std::uint64_t seed = rng.next();
      must(launch(test::kernels().fill, on, target.address, target.words, seed));
      for (std::uint64_t i = 0; i < target.words; ++i) {
        target.model[i] = test::pattern(seed, i);
      }
    }
    must(driver.stream_write_value(on, address_of(markers + made.stream), made.gate, 0));
    CuEvent behind = nullptr;
    must(driver.event_create(&behind, kCuEventDisableTiming));
    must(driver.event_record(behind, on));
    for (const std::size_t b : made.buffers) {
      buffers[b].last_event = behind;
      buffers[b].last_stream = made.stream;
    }
    const std::lock_guard lock(mutex);
    queue.push_back(std::move(made));
    changed.notify_all();
  }

  // --- the mover's

  void serve_all() {
    second_context();
    in = stream();
    out = stream();
    for (;;) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return ended || !queue.empty(); });
      if (queue.empty()) {
        break;
      }
      const Launch next = queue.front();
      queue.pop_front();
      lock.unlock();
      serve(next);
    }
    for (Buffer& buffer : buffers) {
      if (buffer.frame != 0) {
        evict(buffer, true);
      }
    }
    if (mistake == Mistake::kLeaks) {
      free_frames.pop_back();
    }
    for (const CuMemHandle handle : free_frames) {
      must(driver.memory_release(handle));
    }
  }

  void serve(const Launch& next) {
    if (mistake == Mistake::kOpensBeforeTheCopy) {
      __atomic_store_n(gates + next.stream, next.gate, __ATOMIC_RELEASE);
    }
    for (const std::size_t b : next.buffers) {
      Buffer& buffer = buffers[b];
      if (buffer.frame == 0) {
        make_room(next);
        buffer.frame = free_frames.back();
        free_frames.pop_back();
        must(driver.memory_map(buffer.address, kTwoMiB, 0, buffer.frame, 0));
        must(driver.memory_set_access(buffer.address, kTwoMiB, &kMayWrite, 1));
        again([&] { return driver.copy_in(buffer.address, buffer.host, 8 * buffer.words, in); });
      }
      buffer.last_launch = next.number;
      served_at[next.number] = {next.stream, next.gate};
    }
    if (mistake != Mistake::kOpensBeforeTheCopy) {
      must(driver.stream_write_value(in, address_of(gates + next.stream), next.gate, 0));
    }
  }

  void make_room(const Launch& next) {
    if (!free_frames.empty()) {
      return;
    }
    for (;;) {
      const std::size_t b = rng_of_mover.below(kBuffers);
      const bool wanted =
          std::find(next.buffers.begin(), next.buffers.end(), b) != next.buffers.end();
      if (buffers[b].frame != 0 && !wanted) {
        evict(buffers[b], mistake != Mistake::kEvictsWhatIsUsed);
        return;
      }
    }
  }

  void evict(Buffer& buffer, bool when_unused) {
    const auto [on, gate] = served_at[buffer.last_launch];
    while (when_unused && __atomic_load_n(markers + on, __ATOMIC_ACQUIRE) < gate &&
           fake_cuda_violations() == 0) {
      std::this_thread::yield();
    }
    if (mistake != Mistake::kForgetsToCopyOut) {
      again([&] { return driver.copy_out(buffer.host, buffer.address, 8 * buffer.words, out); });
      must(driver.stream_synchronize(out));
    }
    must(driver.memory_unmap(buffer.address, kTwoMiB));
    free_frames.push_back(buffer.frame);
    buffer.frame = 0;
  }

  [[nodiscard]] std::size_t wrong_buffers() const {
    return static_cast<std::size_t>(std::count_if(
        buffers.begin(), buffers.end(),
        [](const Buffer& it) { return !std::equal(it.model.begin(), it.model.end(), it.host); }));
  }

  Mistake mistake = Mistake::kNone;
  std::atomic<int> refused = 0;  // calls that nobody told to fail
  Rng rng{0};
  Rng rng_of_mover{1};
  std::uint64_t* gates = nullptr;
  std::uint64_t* markers = nullptr;
  std::vector<CuStream> streams;
  std::deque<Buffer> buffers;
  std::vector<CuMemHandle> free_frames;
  std::vector<std::uint64_t> launched;  // by stream
  std::uint64_t issued = 0;
  std::map<std::uint64_t, std::pair<std::size_t, std::uint64_t>> served_at;
  CuStream in = nullptr;
  CuStream out = nullptr;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Launch> queue;
  bool ended = false;
};

std::uint64_t first_seed() {
  const char* seed = std::getenv("SPILLWAY_SEED");
  return seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1;
}
std::uint64_t seeds() { return std::getenv("SPILLWAY_SEED") != nullptr ? 1 : kFakeSeeds; }

class OfSeeds : public RandomProgram, public ::testing::WithParamInterface<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Fake, OfSeeds, ::testing::Range(first_seed(), first_seed() + seeds()));

TEST_P(OfSeeds, ComputesWhatTheModelSays) {
  run(GetParam(), Mistake::kNone);
  EXPECT_EQ(wrong_buffers(), 0U);
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(counters().handles + counters().mappings, 0U);
  EXPECT_LE(counters().peak_handle_bytes, kFrames * kTwoMiB);
  EXPECT_EQ(counters().launches, issued);
}

class WithAMistake : public RandomProgram, public ::testing::WithParamInterface<Mistake> {};
INSTANTIATE_TEST_SUITE_P(Fake, WithAMistake,
                         ::testing::Values(Mistake::kEvictsWhatIsUsed, Mistake::kOpensBeforeTheCopy,
                                           Mistake::kForgetsToCopyOut, Mistake::kLeaks));

TEST_P(WithAMistake, IsNoticed) {
#if SPILLWAY_THREAD_SANITIZER
  GTEST_SKIP() << "ThreadSanitizer notices as well, and ends the program";
#endif
  run(first_seed(), GetParam());
  const bool reported = !take_violations().empty();
  switch (GetParam()) {
    case Mistake::kForgetsToCopyOut:
      EXPECT_GT(wrong_buffers(), 0U);
      break;
    case Mistake::kLeaks:
      EXPECT_EQ(counters().handles, 1U);
      break;
    default:
      EXPECT_TRUE(reported);
  }
}

}  // namespace
}  // namespace spillway::cuda
