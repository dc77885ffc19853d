// Eight threads that share a context's null stream under pressure, as a program's would without a
// lock of their own: with streams of theirs beside it, copies that want their memory, events that
// one records and another waits for, and memory that comes and goes. On the fake driver; also for
// ThreadSanitizer.
#include <random>
#include <thread>

#include "platform/cuda/cuda_world.h"

namespace spillway::cuda {
namespace {

constexpr std::size_t kThreads = 8;
constexpr int kRounds = 80;

class Crowd : public CudaWorld {
 protected:
  // On the thread's own default stream: it is waited for before others are told (front/cuda).
  void rewrite_on_thread_stream(Buffer& buffer, std::uint64_t seed) const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a handle by its number
    const auto on = reinterpret_cast<CuStream>(kCuStreamPerThread);
    const CudaOperand it = operand(buffer, AccessMode::kReadWrite);
    const std::uint64_t launched = platform->launches().before_launch(
        {.stream = on, .hash = {}, .name = "rewrite", .operands = {&it, 1}, .needs_mapping = true});
    EXPECT_EQ(launch(test::kernels().rewrite, on, buffer.address, buffer.words, buffer.seed, seed,
                     address_of(wrong)),
              CuResult::kSuccess);
    platform->launches().let_others_issue(launched);
    EXPECT_EQ(driver.stream_synchronize(on), CuResult::kSuccess);
    platform->launches().after_launch(launched, true);
    buffer.seed = seed;
  }
  void record(CuEvent event, CuStream on) const {
    const auto in_order = platform->streams().in_order(on);
    platform->streams().recorded(event, on);
    EXPECT_EQ(driver.event_record(event, on), CuResult::kSuccess);
  }
  void wait_for(CuEvent event, CuStream on) const {
    const auto in_order = platform->streams().in_order(on);
    EXPECT_EQ(driver.stream_wait_event(on, event, 0), CuResult::kSuccess);
    platform->streams().waits_for(event, on);
  }
  // Of one word, into pinned memory.
  void copy_out(const Buffer& buffer, CuStream on, std::uint64_t* to) const {
    const CudaOperand it = operand(buffer, AccessMode::kRead);
    EXPECT_EQ(issue(on, {&it, 1}, "copy out", true,
                    [&] { return driver.copy_out(to, buffer.address, sizeof *to, on); }),
              CuResult::kSuccess);
    synchronize(on);
    EXPECT_EQ(*to, test::pattern(buffer.seed, 0));
  }
  Buffer filled(CuStream on, std::uint64_t seed) const {
    Buffer made = allocate(2 * kMiB);
    fill(on, made, seed);
    return made;
  }
  void work(std::uint64_t which) const {
    ASSERT_EQ(driver.context_set_current(primary), CuResult::kSuccess);
    struct Used {
      Buffer buffer;
      CuStream on = nullptr;
    };
    std::minstd_rand random(static_cast<unsigned>(which + 1));
    const auto up_to = [&](std::size_t count) { return random() % count; };
    std::vector<Used> buffers;
    for (std::uint64_t i = 0; i < 3; ++i) {
      buffers.push_back({.buffer = filled(nullptr, 10 * which + i), .on = nullptr});
    }
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      Used& used = buffers[up_to(buffers.size())];
      const std::uint64_t seed = 1000 * round + which;
      switch (up_to(9)) {
        case 0:
          copy_out(used.buffer, used.on, words[which]);
          break;
        case 1:
          platform->memory().free(used.buffer.address);
          used.buffer = filled(used.on, seed);
          break;
        case 2:
          record(events[up_to(events.size())], used.on);
          break;
        case 3:
          wait_for(events[up_to(events.size())], streams[which][up_to(3)]);
          break;
        case 4:
          synchronize(used.on);
          used.on = streams[which][up_to(3)];
          break;
        case 5:
          synchronize(used.on);
          rewrite_on_thread_stream(used.buffer, seed);
          break;
        default:
          rewrite(used.on, used.buffer, seed);
          break;
      }
    }
    for (const Used& used : buffers) {
      check(used.on, used.buffer);
      synchronize(used.on);
      platform->memory().free(used.buffer.address);
    }
  }
  void all_work() {
    for (std::uint64_t i = 0; i < kThreads; ++i) {
      CuStream blocking = nullptr;
      ASSERT_EQ(driver.stream_create(&blocking, kCuStreamDefault, 0), CuResult::kSuccess);
      streams.push_back({nullptr, blocking, stream()});
      events.push_back(event());
      words.push_back(pinned(1));
    }
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([this, i] { work(i); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(wrong_words(), 0U);
    EXPECT_EQ(counters().host_handle_bytes, 0U);  // nobody had to be let go
    whole();
  }

  std::vector<std::vector<CuStream>> streams;  // by thread
  std::vector<CuEvent> events;
  std::vector<std::uint64_t*> words;  // by thread
};

TEST_F(Crowd, OnOneNullStreamUnderPressure) {
  open();
  all_work();
}

TEST_F(Crowd, OnOneNullStreamThatIsSeenAhead) {
  open(lookahead);
  all_work();
}

// Where some launches are told of and others are not.
TEST_F(Crowd, OnOneNullStreamWhereNearlyAllFits) {
  options.device_bytes = 64 * kMiB;
  options.bypass_after = 5;
  open(lookahead);
  all_work();
}

}  // namespace
}  // namespace spillway::cuda
