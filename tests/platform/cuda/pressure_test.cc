// Where data must move: what waits for what, and what need not.
#include <array>
#include <chrono>
#include <utility>

#include "platform/cuda/cuda_world.h"
#include "policy/lookahead.h"

namespace spillway::cuda {
namespace {

constexpr std::int64_t kSlowNs = 300'000'000;

class Pressure : public CudaWorld {
 protected:
  Pressure() { config.log_calls = 1; }

  // So many buffers, the first of which have had to leave.
  std::vector<Buffer> written(CuStream on, std::size_t count, Bytes bytes) {
    std::vector<Buffer> buffers;
    for (std::size_t i = 0; i < count; ++i) {
      buffers.push_back(allocate(bytes));
      fill(on, buffers.back(), i + 1);
    }
    synchronize(on);
    platform->wait_until_idle();
    return buffers;
  }
};

// Only the memset's own memory must be there; that the stream comes to it late is no matter.
TEST_F(Pressure, AMemsetIsIssuedBehindALaunchThatWaits) {
  open();
  const CuStream on = stream();
  const std::vector<Buffer> buffers = written(on, 3, 8 * kMiB);
  const Buffer& there = buffers[2];
  check(on, buffers[2]);
  synchronize(on);
  platform->wait_until_idle();
  slow_copies(kSlowNs);
  const std::size_t before = fake_cuda_log_lines();
  check(on, buffers[0]);
  EXPECT_EQ(calls("cuStreamWaitValue64", before), 1U);
  const auto since = std::chrono::steady_clock::now();
  const CudaOperand it = operand(there, AccessMode::kOverwrite);
  EXPECT_EQ(issue(on, {&it, 1}, "memset", true,
                  [&] { return driver.set_bytes(there.address, 0, there.bytes(), on); }),
            CuResult::kSuccess);
  const auto took = std::chrono::steady_clock::now() - since;
  EXPECT_LT(std::chrono::nanoseconds(took).count(), kSlowNs / 2);
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

// Sends a block away with the next launch that does not name it first.
class SendsAway final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "sends_away"; }
  void on_issue(const spillway::Launch& launch, Control& control) override {
    if (away != kNoBlock && launch.accesses[0].first_block != away) {
      control.pre_evict(std::exchange(away, kNoBlock), Tier::kHost);
    }
    last = launch.accesses[0].first_block;
  }
  BlockId last = kNoBlock;  // of the last launch
  BlockId away = kNoBlock;  // it
};

// Each of those is a call of the driver, and the way out has nothing to do meanwhile.
TEST_F(Pressure, ACopyOutDoesNotWaitForMemoryThatIsMapped) {
  SendsAway policy;
  options.device_bytes = 64 * kMiB;
  open(policy);
  const CuStream on = stream();
  const std::vector<Buffer> buffers = written(on, 9, 8 * kMiB);
  check(on, buffers[8]);
  const BlockId leaves = policy.last;
  for (std::size_t i = 1; i < 6; ++i) {
    platform->memory().free(buffers[i].address);
  }
  synchronize(on);
  platform->wait_until_idle();
  std::array<Buffer, 4> made;
  std::array<CudaOperand, 4> operands;
  for (std::size_t i = 0; i < made.size(); ++i) {
    made.at(i) = allocate(8 * kMiB);
    operands.at(i) = operand(made.at(i), AccessMode::kOverwrite);
  }
  const std::size_t before = fake_cuda_log_lines();
  fake_cuda_let_access(0);
  EXPECT_EQ(issue(on, operands, "fill", false,
                  [&] {
                    return launch(test::kernels().fill, on, made[0].address, made[0].words,
                                  std::uint64_t{1});
                  }),
            CuResult::kSuccess);
  EXPECT_TRUE(soon([] { return fake_cuda_access_stands() > 0; }));
  policy.away = leaves;
  check(on, buffers[7]);
  fake_cuda_let_access(1);
  EXPECT_TRUE(soon([&] { return calls("cuMemcpyDtoHAsync", before) > 0; }));
  EXPECT_EQ(calls("cuMemSetAccess", before), 1U);  // the others of the four are still to come
  fake_cuda_let_access(-1);
  synchronize(on);
  check(on, buffers[8]);
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
  platform.reset();  // before its policy
}

// The next one is set up while one moves, and what makes room for it leaves meanwhile.
TEST_F(Pressure, SeveralBlocksThatALaunchLacksAreOnTheirWayAtOnce) {
  options.block_bytes = 2 * kMiB;
  open();
  const CuStream on = stream();
  const std::vector<Buffer> buffers = written(on, 3, 8 * kMiB);
  platform->memory().free(buffers[1].address);
  platform->memory().free(buffers[2].address);
  platform->wait_until_idle();
  slow_copies(kSlowNs);
  const std::size_t before = fake_cuda_log_lines();
  check(on, buffers[0]);
  EXPECT_TRUE(soon([&] { return calls("cuMemcpyHtoDAsync", before) >= 3; }));
  EXPECT_EQ(counters().copies_in, 0U);  // none has ended
  slow_copies(0);
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

// Lookahead wants four a stream, which a device has run before our thread looks.
TEST_F(Pressure, ManyLaunchesOfLittleMemoryAreAdmittedWhereOtherMemoryMustLeave) {
  options.device_bytes = 416 * kMiB;
  options.host_bytes = 768 * kMiB;
  open(lookahead);
  const CuStream on = stream();
  std::vector<Buffer> buffers = written(on, 32, 16 * kMiB);
  Buffer small = allocate(2 * kMiB);
  fill(on, small, 1);
  synchronize(on);
  fake_cuda_hold_stream(on, 1);
  const std::size_t before = fake_cuda_log_lines();
  for (std::uint64_t i = 2; i < 14; ++i) {
    rewrite(on, small, i);
  }
  EXPECT_EQ(calls("cuStreamWaitValue64", before), 0U);
  fake_cuda_hold_stream(on, 0);
  synchronize(on);
  EXPECT_EQ(wrong_words(), 0U);
  whole();
}

// Which of many buffers have left, and launches on them that wait for long.
class WaitingLaunches : public Pressure {
 protected:
  void set_up() {
    options.device_bytes = 128 * kMiB;
    options.host_bytes = 256 * kMiB;
    options.block_bytes = 2 * kMiB;
    open(lookahead);
    on = stream();
    buffers = written(on, 96, 2 * kMiB);
    slow_copies(kSlowNs);
    before = fake_cuda_log_lines();
  }
  void end() {
    slow_copies(0);
    synchronize(on);
    EXPECT_EQ(wrong_words(), 0U);
    whole();
  }
  [[nodiscard]] std::size_t gates() const { return calls("cuStreamWaitValue64", before); }
  [[nodiscard]] std::size_t markers() const { return calls("cuStreamWriteValue64", before); }

  CuStream on = nullptr;
  std::vector<Buffer> buffers;
  std::size_t before = 0;
};

// A stream wait and a completion marker for each would cost the device more than a short launch
// takes.
TEST_F(WaitingLaunches, InARowShareAStreamWaitAndAMarker) {
  set_up();
  for (std::size_t i = 0; i < 12; ++i) {
    check(on, buffers[i]);
  }
  EXPECT_EQ(gates(), 3U);
  EXPECT_LE(markers(), 3U);
  end();
}

TEST_F(WaitingLaunches, HaveAStreamWaitEachWhereSomethingComesBetween) {
  set_up();
  const CuStream other = stream();
  const CuEvent happened = event();
  for (std::size_t i = 0; i < 4; ++i) {
    check(on, buffers[i]);
    EXPECT_EQ(driver.event_record(happened, on), CuResult::kSuccess);
    platform->streams().recorded(happened, on);
  }
  EXPECT_EQ(gates(), 4U);
  for (std::size_t i = 4; i < 8; ++i) {
    check(i % 2 == 0 ? on : other, buffers[i]);
  }
  EXPECT_EQ(gates(), 8U);
  synchronize(other);
  end();
}

TEST_F(WaitingLaunches, HaveAStreamWaitEachWhereTheyNeedMuch) {
  options.shared_wait_part = 64;
  set_up();
  for (std::size_t i = 0; i < 4; ++i) {
    check(on, buffers[i]);
  }
  EXPECT_EQ(gates(), 4U);
  end();
}

// Who comes later and needs what those hold hears of their ends.
TEST_F(WaitingLaunches, ThatShareAStreamWaitMakeRoomForALargeOne) {
  set_up();
  Buffer large = allocate(120 * kMiB);
  for (std::size_t i = 0; i < 6; ++i) {
    check(on, buffers[i]);
  }
  fill(on, large, 1);
  check(on, large);
  end();
}

}  // namespace
}  // namespace spillway::cuda
