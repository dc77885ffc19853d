// Launches of a program on the host platform: what their waits are booked to, and when policies
// hear of what they use.
#include "platform/host/host_launches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "platform/common/process/clock.h"
#include "platform/host/host_world.h"

namespace spillway::host {
namespace {

class HostLaunchesTest : public HostPlatformTest {
 protected:
  LaunchWaits waits_of(std::string_view name) {
    for (const LaunchWaits& waits : platform_->waits()) {
      if (waits.name == name) return waits;
    }
    return {};
  }
  void run(std::string_view name, std::span<std::uint64_t> words) {
    const std::array operands{operand(words, AccessMode::kReadWrite)};
    platform_->end_launch(platform_->begin_launch(name, operands));
  }
};

TEST_F(HostLaunchesTest, AWaitIsBookedToWhereTheBytesCameFrom) {
  open(16 * kMiB, 16 * kMiB, 128 * kMiB);
  if (!platform_) return;
  const auto stored = allocate(12 * kMiB);
  fill(stored, 1, 1);
  platform_->pre_evict(stored.data(), stored.size_bytes(), Tier::kStorage);
  platform_->wait_until_idle();
  const auto kept = allocate(12 * kMiB);
  fill(kept, 2, 1);  // takes the frames of what has been copied down
  platform_->pre_evict(kept.data(), kept.size_bytes(), Tier::kHost);
  platform_->wait_until_idle();
  run("from storage", stored);
  run("from host memory", kept);
  run("of nothing", allocate(8 * kMiB));
  const LaunchWaits storage = waits_of("from storage");
  EXPECT_GT(storage.storage_ns, 0);
  EXPECT_GT(storage.storage_ns, 9 * storage.host_ns);
  EXPECT_EQ(storage.blocks, 4U);  // the other two are still there
  const LaunchWaits host = waits_of("from host memory");
  EXPECT_GT(host.host_ns, 0);
  EXPECT_EQ(host.storage_ns, 0);
  for (const LaunchWaits& waits : {storage, host, waits_of("of nothing")}) {
    EXPECT_LE(waits.host_ns + waits.storage_ns + waits.fresh_ns, waits.wait_ns);
  }
  EXPECT_EQ(mismatches(stored, 1, 1) + mismatches(kept, 2, 1), 0U);
}

// A policy hears of what a launch uses when the launch has begun, not while it waits for room.
class Listening final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "listening"; }
  void on_launch(const Launch& launch, Control& /*control*/) override {
    begun_.push_back(launch.execution);
  }
  void on_access(const Launch& launch, BlockId /*block*/, Control& /*control*/) override {
    const bool launched = launch.execution != kNoExecution;
    early_ = early_ || (launched && std::ranges::find(begun_, launch.execution) == begun_.end());
    heard_ = heard_ || launched;
  }
  std::optional<BlockId> select_victim(Cause /*cause*/, BlockId /*incoming*/,
                                       const Control& control) override {
    const BlockId id = control.queues().oldest_unclaimed();
    return id == kNoBlock ? std::nullopt : std::optional(id);
  }
  // One at a time: the others wait.
  [[nodiscard]] LaunchWindow window() const override { return {.bytes = 8 * kMiB}; }
  [[nodiscard]] bool early() const { return early_; }
  [[nodiscard]] bool heard() const { return heard_; }

 private:
  std::vector<ExecutionId> begun_;
  bool early_ = false;
  bool heard_ = false;
};

TEST_F(HostLaunchesTest, PoliciesHearOfUsesOfLaunchesThatHaveBegun) {
  const UserfaultSupport support = userfault_support();
  if (!support.write_protection || !support.kernel_faults) {
    GTEST_SKIP() << support.reason;
  }
  Listening policy;
  HostOptions options;
  options.device_bytes = 32 * kMiB;
  options.host_bytes = 64 * kMiB;
  auto platform = std::move(HostPlatform::create(options, std::nullopt, policy).value());
  std::array<void*, 2> memory{};
  std::array<ProgramOperand, 2> operands{};
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory[i] = platform->allocate(8 * kMiB).value();
    operands[i] = {.start = memory[i], .bytes = 8 * kMiB, .mode = AccessMode::kWrite};
  }
  const LaunchId first = platform->begin_launch("first", {operands.data(), 1});
  std::thread other([&] {
    platform->end_launch(platform->begin_launch("second", {&operands[1], 1}));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it waits for the first
  platform->end_launch(first);
  other.join();
  EXPECT_TRUE(policy.heard());
  EXPECT_FALSE(policy.early());
}

// Who asks whether there is room while another launch waits for some is told of that one.
TEST_F(HostLaunchesTest, ALaunchIsInLineBeforeItWaits) {
  open(32 * kMiB, 64 * kMiB, 0);
  if (!platform_) return;
  const std::array first{operand(allocate(16 * kMiB), AccessMode::kWrite)};
  const std::array second{operand(allocate(24 * kMiB), AccessMode::kWrite)};
  const std::array third{operand(allocate(2 * kMiB), AccessMode::kWrite)};
  const LaunchId running = platform_->begin_launch("runs", first);
  EXPECT_EQ(platform_->fit(third).state, LaunchState::kReady);
  std::promise<void> in_line;
  std::thread other([&] {
    platform_->end_launch(platform_->begin_launch("waits", second, [&] { in_line.set_value(); }));
  });
  const bool told =
      in_line.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  EXPECT_TRUE(told);
  EXPECT_EQ(platform_->fit(third).state, LaunchState::kWaiting);
  platform_->end_launch(running);
  other.join();
}

// A machine whose faults take long is slow, but not deaf.
TEST_F(HostLaunchesTest, NobodyWaitsForAnothersFaultLatency) {
  HostOptions options;
  options.link.fault_latency_ns = 300'000'000;
  open(32 * kMiB, 64 * kMiB, 0, options);
  if (!platform_) return;
  const auto words = allocate(4 * kMiB);
  const TimeNs begin_ns = now_ns();
  std::thread faults([&] { words[0] = 1; });
  TimeNs longest_ns = 0;
  while (now_ns() - begin_ns < 200'000'000) {
    const TimeNs asked_ns = now_ns();
    (void)platform_->stats();
    longest_ns = std::max(longest_ns, now_ns() - asked_ns);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  faults.join();
  EXPECT_GE(now_ns() - begin_ns, 300'000'000);
  EXPECT_LT(longest_ns, 150'000'000);
  EXPECT_EQ(words[0], 1U);
}

}  // namespace
}  // namespace spillway::host
