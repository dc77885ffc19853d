// The throttled link: each direction takes as long as its bytes need, and both carry at once.
#include "platform/common/storage/link_throttle.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "platform/common/process/clock.h"
#include "platform/host/host_platform.h"
#include "policy/base_uvm.h"

namespace spillway::host {
namespace {

TEST(LinkThrottle, CarriesOneTransferAfterTheOther) {
  LinkThrottle link({.bytes_per_s = 1e9});
  EXPECT_EQ(link.book(LinkDirection::kToDevice, 1'000'000, 5 * kNsPerMs), 6 * kNsPerMs);
  EXPECT_EQ(link.book(LinkDirection::kToDevice, 2'000'000, 5 * kNsPerMs), 8 * kNsPerMs);
  EXPECT_EQ(link.book(LinkDirection::kFromDevice, 1'000'000, 5 * kNsPerMs), 6 * kNsPerMs);
  EXPECT_EQ(link.free_at_ns(LinkDirection::kToDevice), 8 * kNsPerMs);
  EXPECT_EQ(link.book(LinkDirection::kToDevice, 1'000'000, 20 * kNsPerMs), 21 * kNsPerMs);
}

TEST(LinkThrottle, IsNoneWithoutABandwidth) {
  LinkThrottle link({});
  EXPECT_EQ(link.book(LinkDirection::kToDevice, 1'000'000, 5 * kNsPerMs), 5 * kNsPerMs);
  EXPECT_EQ(link.free_at_ns(LinkDirection::kToDevice), 0);
}

// What is moved ahead of need in one direction must not hold up the other: G10's plans move out and
// in at the same time.
TEST(LinkThrottle, BothDirectionsOfAPlatformCarryAtOnce) {
  if (const UserfaultSupport support = userfault_support();
      !support.write_protection || !support.kernel_faults) {
    GTEST_SKIP() << support.reason;
  }
  constexpr Bytes kEachWay = 16 * kMiB;
  BaseUvm policy;
  HostOptions options;
  options.device_bytes = 64 * kMiB;
  options.host_bytes = 64 * kMiB;
  options.link.bytes_per_s = 40 * static_cast<double>(kMiB);
  constexpr TimeNs kOneWayNs = 400 * kNsPerMs;
  Result<std::unique_ptr<HostPlatform>> made = HostPlatform::create(options, std::nullopt, policy);
  ASSERT_TRUE(made) << made.error().message;
  HostPlatform& platform = **made;
  std::array<char*, 2> memory{};
  for (char*& start : memory) {
    start = static_cast<char*>(platform.allocate(kEachWay).value_or(nullptr));
    ASSERT_NE(start, nullptr);
    for (Bytes at = 0; at < kEachWay; at += kPageBytes) {
      start[at] = 1;
    }
  }
  platform.pre_evict(memory[0], kEachWay, Tier::kHost);
  platform.wait_until_idle();
  // What was copied down keeps its frame until somebody needs it: a smaller budget does.
  ASSERT_TRUE(platform.set_device_capacity(kEachWay));
  platform.wait_until_idle();
  ASSERT_TRUE(platform.set_device_capacity(64 * kMiB));

  const TimeNs begin_ns = now_ns();
  platform.pre_evict(memory[1], kEachWay, Tier::kHost);
  platform.prefetch(memory[0], kEachWay);
  platform.wait_until_idle();
  const TimeNs took_ns = now_ns() - begin_ns;
  EXPECT_GE(took_ns, kOneWayNs * 9 / 10);
  EXPECT_LT(took_ns, kOneWayNs * 19 / 10);
  const EngineStats stats = platform.stats().engine;
  EXPECT_EQ(stats.moved(Tier::kHost, Tier::kDevice), kEachWay);
  EXPECT_EQ(stats.moved(Tier::kDevice, Tier::kHost), 2 * kEachWay);
  EXPECT_EQ(memory[0][0], 1);
}

}  // namespace
}  // namespace spillway::host
