// Launches that wait and go through one gate: which may, and that nothing waits for ever because of
// it.
#include "platform/cuda/shared_gate.h"

#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <thread>

#include "base/rng.h"
#include "platform/cuda/cuda_world.h"
#include "policy/lookahead.h"

namespace spillway::cuda {
namespace {

constexpr SharedGate::Limits kLimits{.launches = 3, .bytes = 10 * kMiB};
constexpr SharedGate::Launch kFirst{
    .number = 7, .bytes = 2 * kMiB, .issues = 100, .operations = 50};

SharedGate::Launch behind(const SharedGate::Launch& last) {
  return {.number = last.number + 1,
          .bytes = 2 * kMiB,
          .issues = last.issues + 1,
          .operations = last.operations + 1};
}

class SharedGateRule : public ::testing::Test {
 protected:
  SharedGateRule() { gate.put_before(kFirst); }
  [[nodiscard]] bool takes(const SharedGate::Launch& next) const {
    return gate.takes(next, 6, kLimits);
  }
  SharedGate gate;
};

TEST_F(SharedGateRule, ThoseInARowAsManyAsMay) {
  const SharedGate::Launch second = behind(kFirst);
  const SharedGate::Launch third = behind(second);
  ASSERT_TRUE(takes(second));
  gate.take(second);
  ASSERT_TRUE(takes(third));
  gate.take(third);
  EXPECT_FALSE(takes(behind(third)));
  EXPECT_EQ(gate.number(), 7U);
  EXPECT_EQ(gate.bytes(), 6 * kMiB);
}

TEST_F(SharedGateRule, NoneThroughAGateThatIsOpen) {
  EXPECT_FALSE(gate.takes(behind(kFirst), 7, kLimits));
  EXPECT_FALSE(SharedGate().takes(behind({}), 0, kLimits));
  gate.forget();
  EXPECT_FALSE(takes(behind(kFirst)));
}

TEST_F(SharedGateRule, NoneBehindSomethingElse) {
  SharedGate::Launch next = behind(kFirst);
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

// Much waits, on one stream and on several that wait for each other, while budgets change.
class SharedGates : public CudaWorld, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  static constexpr std::size_t kBuffers = 64;
  static constexpr Bytes kMost = 64 * kMiB;
  SharedGates() {
    options.device_bytes = kMost;
    options.host_bytes = 192 * kMiB;
    options.block_bytes = 4 * kMiB;
    config.copy_bytes_per_s = 4e9;
    config.launch_ns = 20'000;
  }
  void open_with_buffers() {
    open(lookahead);
    for (std::size_t i = 0; i < kBuffers; ++i) {
      buffers.push_back(allocate((1 + i % 2) * 2 * kMiB));
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
        platform->recorded(last[i], streams[i]);
        EXPECT_EQ(driver.stream_wait_event(on, last[i], 0), CuResult::kSuccess);
        platform->waits_for(last[i], on);
      }
    }
    return on;
  }

  Lookahead lookahead;
  std::vector<Buffer> buffers;
  std::vector<CuStream> streams;
  std::vector<CuEvent> last;
};

TEST_P(SharedGates, NothingIsLostAndNothingWaitsForEver) {
  open_with_buffers();
  Rng rng(GetParam());
  std::uint64_t seed = 1000;
  for (int burst = 0; burst < 30; ++burst) {
    const CuStream on = behind_all(rng.below(streams.size()));
    for (std::uint64_t left = 1 + rng.below(80); left > 0; --left) {
      Buffer& buffer = buffers[rng.below(kBuffers)];
      rng.chance(0.5) ? rewrite(on, buffer, ++seed) : check(on, buffer);
    }
    if (rng.chance(0.1)) {
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
  EXPECT_EQ(wrong_words(), 0U);
  platform->wait_until_idle();
  whole();
}

// Others have what the budget counts on: launches that share a gate are admitted together all the
// same.
TEST_P(SharedGates, WhereTheDeviceHasLessThanTheBudget) {
  config.device_bytes = 2 * config.context_bytes + 40 * kMiB;
  open_with_buffers();
  Rng rng(GetParam());
  std::uint64_t seed = 1000;
  for (int i = 0; i < 400; ++i) {
    rewrite(streams[0], buffers[rng.below(kBuffers)], ++seed);
  }
  synchronize(streams[0]);
  EXPECT_EQ(wrong_words(), 0U);
}

// Two threads, each on a stream and with buffers of its own.
TEST_P(SharedGates, OfTwoThreads) {
  open_with_buffers();
  const auto work = [this](std::size_t which) {
    Rng rng(10 * GetParam() + which);
    std::uint64_t seed = 100'000 * (1 + which);
    for (int i = 0; i < 400; ++i) {
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

INSTANTIATE_TEST_SUITE_P(Seeds, SharedGates, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace spillway::cuda
