// What the fake driver makes go wrong when it is told to: from a seed, and as a platform meets it.
#include "platform/cuda/fake_device.h"

namespace spillway::cuda {
namespace {

using ::testing::Contains;

class FakeFailures : public FakeDevice {
 protected:
  CuResult try_create() const {
    CuAllocationProperties properties{};
    properties.type = CuAllocationType::kPinned;
    properties.location = {CuLocationType::kDevice, 0};
    CuMemHandle handle = 0;
    return driver.memory_create(&handle, kTwoMiB, &properties, 0);
  }
  std::vector<CuResult> creates(std::uint64_t seed) {
    config.seed = seed;
    start();
    std::vector<CuResult> results;
    for (int i = 0; i < 100; ++i) {
      results.push_back(try_create());
    }
    return results;
  }
};

TEST_F(FakeFailures, ComeFromTheSeed) {
  config.create_fails = 0.3;
  config.poison_handles = 0;
  const std::vector<CuResult> once = creates(1);
  EXPECT_THAT(once, Contains(CuResult::kOutOfMemory));
  EXPECT_THAT(once, Contains(CuResult::kSuccess));
  EXPECT_EQ(counters().injected_failures + counters().handles, 100U);
  EXPECT_EQ(creates(1), once);
  EXPECT_NE(creates(2), once);
}

TEST_F(FakeFailures, CanBeSwitchedOnAndOff) {
  EXPECT_EQ(try_create(), CuResult::kSuccess);
  config.create_fails = 1;
  config.device_bytes = 0;
  fake_cuda_change(&config);
  EXPECT_EQ(try_create(), CuResult::kOutOfMemory);
  config.create_fails = 0;
  fake_cuda_change(&config);
  EXPECT_EQ(try_create(), CuResult::kSuccess) << "the machine is what it was";
}

TEST_F(FakeFailures, HostMemory) {
  config.host_memory_fails = 1;
  fake_cuda_change(&config);
  void* memory = nullptr;
  EXPECT_EQ(driver.host_alloc(&memory, 100, 0), CuResult::kOutOfMemory);
  std::uint64_t own = 0;
  EXPECT_EQ(driver.host_register(&own, 8, 0), CuResult::kOutOfMemory);
  EXPECT_EQ(counters().pinned_bytes, 0U);
}

TEST_F(FakeFailures, ARefusedCopyIsNotDone) {
  const CuAddress at = memory();
  std::uint64_t* host = pinned(2);
  host[0] = 1;
  driver.copy_in(at, host, 8, nullptr);
  config.copy_refused = 1;
  fake_cuda_change(&config);
  host[1] = 2;
  EXPECT_EQ(driver.copy_in(at, host + 1, 8, nullptr), CuResult::kUnknown);
  config.copy_refused = 0;
  fake_cuda_change(&config);
  EXPECT_EQ(driver.copy_out(host + 1, at, 8, nullptr), CuResult::kSuccess);
  EXPECT_EQ(driver.stream_synchronize(nullptr), CuResult::kSuccess);
  EXPECT_EQ(host[1], 1U);
}

TEST_F(FakeFailures, ABrokenCopyDoesHalfAndLosesItsContextOnly) {
  const CuAddress at = memory();
  char* host = pinned<char>(100);
  std::memset(host, 1, 100);
  driver.set_bytes(at, 0, 100, nullptr);
  driver.stream_synchronize(nullptr);
  CuContext second = second_context();
  CuStream on = stream();
  CuEvent recorded = event();
  config.copy_breaks = 1;
  fake_cuda_change(&config);
  EXPECT_EQ(driver.copy_in(at, host, 100, on), CuResult::kSuccess);
  driver.event_record(recorded, on);
  EXPECT_TRUE(soon([&] { return driver.event_query(recorded) != CuResult::kNotReady; }));
  EXPECT_EQ(driver.event_query(recorded), CuResult::kEccUncorrectable);
  EXPECT_EQ(driver.set_bytes(at, 0, 100, on), CuResult::kEccUncorrectable);
  EXPECT_EQ(driver.memory_unmap(at, kTwoMiB), CuResult::kEccUncorrectable);
  config.copy_breaks = 0;
  fake_cuda_change(&config);
  driver.context_set_current(primary);
  EXPECT_EQ(driver.copy_out(host, at, 100, nullptr), CuResult::kSuccess);
  EXPECT_EQ(driver.stream_synchronize(nullptr), CuResult::kSuccess);
  EXPECT_EQ(host[49], 1);
  EXPECT_EQ(host[50], 0);
  EXPECT_EQ(driver.context_destroy(second), CuResult::kSuccess);
}

TEST_F(FakeFailures, SlowCopiesAndStandingStreamsTakeTheirTime) {
  const CuAddress at = memory();
  char* host = pinned<char>(kTwoMiB);
  CuStream on = stream();
  const auto milliseconds = [&](const auto& work) {
    fake_cuda_change(&config);
    const auto start_time = std::chrono::steady_clock::now();
    EXPECT_EQ(work(), CuResult::kSuccess);
    EXPECT_EQ(driver.stream_synchronize(on), CuResult::kSuccess);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_time)
        .count();
  };
  const auto copy = [&] { return driver.copy_in(at, host, kTwoMiB, on); };
  const auto set = [&] { return driver.set_bytes(at, 0, 8, on); };
  config.slow_ns = 30'000'000;
  config.copy_slow = 1;
  EXPECT_GE(milliseconds(copy), 30);
  config.copy_slow = 0;
  config.stream_stands = 1;
  EXPECT_GE(milliseconds(set), 30);
  config.stream_stands = 0;
  config.copy_bytes_per_s = static_cast<double>(kTwoMiB) * 50;
  EXPECT_GE(milliseconds(copy), 20);
  config.copy_bytes_per_s = 0;
  config.access_ns = 20'000'000;
  EXPECT_GE(milliseconds([&] { return driver.memory_set_access(at, kTwoMiB, &kMayWrite, 1); }), 20);
}

TEST_F(FakeFailures, GivingAccessCanTakeLongerBesideACopyOut) {
  const CuAddress at = memory();
  const CuAddress other = memory();
  char* host = pinned<char>(100);
  CuStream on = stream();
  config.copy_ns = 200'000'000;
  config.access_beside_copy_out_ns = 20'000'000;
  fake_cuda_change(&config);
  driver.copy_out(host, at, 100, on);
  runs_now(on);
  const auto start_time = std::chrono::steady_clock::now();
  driver.memory_set_access(other, kTwoMiB, &kMayWrite, 1);
  EXPECT_GE(std::chrono::steady_clock::now() - start_time, std::chrono::milliseconds(20));
  EXPECT_EQ(driver.stream_query(on), CuResult::kNotReady);
  driver.stream_synchronize(on);
}

}  // namespace
}  // namespace spillway::cuda
