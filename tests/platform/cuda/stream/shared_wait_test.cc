// Launches that wait and go through one stream wait: which may, and that nothing waits for ever
// because of it.
#include "platform/cuda/stream/shared_wait.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/sanitizers.h"
#include "platform/cuda/cuda_world.h"

namespace spillway::cuda {
namespace {

#if SPILLWAY_THREAD_SANITIZER
constexpr int kBursts = 6;
constexpr int kRewrites = 100;
#else
constexpr int kBursts = 30;
constexpr int kRewrites = 400;
#endif

constexpr SharedWait::Limits kLimits{.launches = 3, .bytes = 10 * kMiB};
constexpr SharedWait::Launch kFirst{
    .number = 7, .bytes = 2 * kMiB, .issues = 100, .operations = 50};

SharedWait::Launch behind(const SharedWait::Launch& last) {
  return {.number = last.number + 1,
          .bytes = 2 * kMiB,
          .issues = last.issues + 1,
          .operations = last.operations + 1};
}

class SharedWaitRule : public ::testing::Test {
 protected:
  SharedWaitRule() { gate.put_before(kFirst); }
  [[nodiscard]] bool takes(const SharedWait::Launch& next) const {
    return gate.takes(next, 6, kLimits);
  }
  SharedWait gate;
};

TEST_F(SharedWaitRule, ThoseInARowAsManyAsMay) {
  const SharedWait::Launch second = behind(kFirst);
  const SharedWait::Launch third = behind(second);
  ASSERT_TRUE(takes(second));
  gate.take(second);
  ASSERT_TRUE(takes(third));
  gate.take(third);
  EXPECT_FALSE(takes(behind(third)));
  EXPECT_EQ(gate.number(), 7U);
}

TEST_F(SharedWaitRule, NoneThroughAGateThatIsOpen) {
  EXPECT_FALSE(gate.takes(behind(kFirst), 7, kLimits));
  EXPECT_FALSE(SharedWait().takes(behind({}), 0, kLimits));
  gate.forget();
  EXPECT_FALSE(takes(behind(kFirst)));
}

TEST_F(SharedWaitRule, NoneBehindSomethingElse) {
  SharedWait::Launch next = behind(kFirst);
  ++next.number;
  EXPECT_FALSE(takes(next));
  next = behind(kFirst);
  ++next.issues;
  EXPECT_FALSE(takes(next));
  next = behind(kFirst);
  ++next.operations;
  EXPECT_FALSE(takes(next));
  next = behind(kFirst);
  next.bytes = 9 * kMiB;
  EXPECT_FALSE(takes(next));
}

class WaitWorld : public CudaWorld {
 protected:
  static constexpr Bytes kMost = 64 * kMiB;
  WaitWorld() {
    options.device_bytes = kMost;
    options.host_bytes = 192 * kMiB;
    options.block_bytes = 4 * kMiB;
    options.shared_wait_part = 3;
    config.log_calls = 1;
  }
  // That have been put on streams so far.
  static std::size_t gates() { return calls("cuStreamWaitValue64", 0); }
};

// What a launch holds comes free only behind another, which is behind the stream wait that it
// shares with one that lacks just that.
TEST_F(WaitWorld, ThoseThatCannotBeAdmittedTogetherRunAllTheSame) {
  constexpr std::uint64_t kSeed = 5;
  open(lookahead);
  const CuStream on = stream();
  const CuStream other = stream();
  Buffer first = allocate(4 * kMiB);
  Buffer second = allocate(14 * kMiB);
  Buffer large = allocate(48 * kMiB);
  Buffer rest = allocate(16 * kMiB);
  for (Buffer* const buffer : {&first, &second, &large, &rest}) {
    fill(on, *buffer, 1);
  }
  synchronize(on);
  platform->wait_until_idle();
  std::uint64_t* const flag = pinned(1);
  std::uint64_t* const word = pinned(1);
  *flag = *word = 0;
  const CudaOperand held = operand(large, AccessMode::kRead);
  ASSERT_EQ(issue(other, {&held, 1}, "wait", false,
                  [&] { return launch(test::kernels().wait, other, address_of(flag)); }),
            CuResult::kSuccess);
  slow_copies(300'000'000);
  const std::size_t before = gates();
  check(on, first);
  // Finds no pattern, and says so at the flag.
  ASSERT_EQ(
      launch(test::kernels().rewrite, on, address_of(word), 1, kSeed, kSeed, address_of(flag)),
      CuResult::kSuccess);
  check(on, second);
  EXPECT_EQ(gates(), before + 1);
  slow_copies(0);
  synchronize(on);
  synchronize(other);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

// Somebody may be about to put it there, and what it would tell may be what is waited for.
TEST_F(WaitWorld, NoneIsSharedWhileAnotherStreamHasALaunchWithoutATicket) {
  open(lookahead);
  const CuStream on = stream();
  const CuStream other = stream();
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < 24; ++i) {
    buffers.push_back(allocate(4 * kMiB));
    fill(on, buffers.back(), i + 1);
  }
  synchronize(on);
  platform->wait_until_idle();
  const CudaOperand there = operand(buffers.back(), AccessMode::kRead);
  const std::uint64_t slow = platform->launches().before_launch(
      {.stream = other, .hash = {}, .name = "slow", .operands = {&there, 1}});
  slow_copies(300'000'000);
  const std::size_t before = gates();
  check(on, buffers[0]);
  check(on, buffers[1]);
  EXPECT_EQ(gates(), before + 2);
  platform->launches().after_launch(slow, false);
  check(on, buffers[2]);
  check(on, buffers[3]);
  EXPECT_LT(gates(), before + 4);
  slow_copies(0);
  synchronize(on);
  synchronize(other);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

// Much waits, on one stream and on several that wait for each other, while budgets change.
class SharedWaits : public WaitWorld, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  static constexpr std::size_t kBuffers = 64;
  SharedWaits() {
    config.copy_bytes_per_s = 4e9;
    config.launch_ns = 20'000;
  }
  void open_with_buffers() {
    open(lookahead);
    for (std::size_t i = 0; i < kBuffers; ++i) {
      buffers.push_back(allocate((1 + i / 2 % 2) * 2 * kMiB));
      fill(nullptr, buffers.back(), i + 1);
    }
    synchronize(nullptr);
    for (int i = 0; i < 3; ++i) {
      streams.push_back(stream());
      last.push_back(event());
    }
  }
  // The stream, behind all that has been issued to the others.
  CuStream behind_all(std::size_t which) {
    const CuStream on = streams[which];
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (i != which) {
        EXPECT_EQ(driver.event_record(last[i], streams[i]), CuResult::kSuccess);
        platform->streams().recorded(last[i], streams[i]);
        EXPECT_EQ(driver.stream_wait_event(on, last[i], 0), CuResult::kSuccess);
        platform->streams().waits_for(last[i], on);
      }
    }
    return on;
  }
  // True if it stands behind a stream wait, its own or another's.
  bool rewrite_behind_gate(CuStream on, Buffer& buffer, std::uint64_t seed) const {
    const CudaOperand it = operand(buffer, AccessMode::kReadWrite);
    const std::uint64_t id = platform->launches().before_launch(
        {.stream = on, .hash = {}, .name = "rewrite", .operands = {&it, 1}});
    const bool gated = platform->launches().is_held(id);
    EXPECT_EQ(launch(test::kernels().rewrite, on, buffer.address, buffer.words, buffer.seed, seed,
                     address_of(wrong)),
              CuResult::kSuccess);
    platform->launches().after_launch(id, true);
    buffer.seed = seed;
    return gated;
  }

  std::vector<Buffer> buffers;
  std::vector<CuStream> streams;
  std::vector<CuEvent> last;
};

TEST_P(SharedWaits, NothingIsLostAndNothingWaitsForEver) {
  open_with_buffers();
  Rng rng(GetParam());
  std::uint64_t seed = 1000;
  const std::size_t before = gates();
  std::size_t behind_gates = 0;
  for (int burst = 0; burst < kBursts; ++burst) {
    const CuStream on = behind_all(rng.below(streams.size()));
    for (std::uint64_t left = 1 + rng.below(80); left > 0; --left) {
      behind_gates += rewrite_behind_gate(on, buffers[rng.below(kBuffers)], ++seed) ? 1U : 0U;
    }
    if (rng.chance(0.2)) {
      const Status set = platform->set_device_capacity(kMost - 8 * kMiB * rng.below(6));
      EXPECT_TRUE(set) << set.error().message;
    }
    if (rng.chance(0.5)) {
      synchronize(on);
      whole();
    }
  }
  for (const CuStream on : streams) {
    synchronize(on);
  }
  EXPECT_LT(gates() - before, behind_gates);
  EXPECT_EQ(wrong_words(), 0U);
  platform->wait_until_idle();
  whole();
}

// Two threads, each on a stream and with buffers of its own.
TEST_P(SharedWaits, OfTwoThreads) {
  open_with_buffers();
  const auto work = [this](std::size_t which) {
    Rng rng(10 * GetParam() + which);
    std::uint64_t seed = 100'000 * (1 + which);
    for (int i = 0; i < kRewrites; ++i) {
      rewrite(streams[which], buffers[2 * rng.below(kBuffers / 2) + which], ++seed);
      if (rng.chance(0.02)) {
        synchronize(streams[which]);
      }
    }
    synchronize(streams[which]);
  };
  std::thread other([&] {
    (void)driver.context_set_current(primary);
    work(1);
  });
  work(0);
  other.join();
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

INSTANTIATE_TEST_SUITE_P(Seeds, SharedWaits, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace spillway::cuda
