// A fixture with the fake driver opened as a program would open the real one.
// What a test does not say is refused, and whatever is reported as a broken rule fails it, unless
// it takes the violations itself.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "platform/cuda/driver/driver.h"
#include "platform/cuda/fake_driver/fake_cuda.h"
#include "platform/cuda/fake_driver/test_kernels.h"

namespace spillway::cuda {

inline constexpr std::uint64_t kTwoMiB = 2ULL << 20U;
inline constexpr CuAccessDescription kMayWrite{{CuLocationType::kDevice, 0}, CuAccess::kReadWrite};

inline void PrintTo(CuResult result, std::ostream* to) { *to << static_cast<unsigned>(result); }

class FakeDevice : public ::testing::Test {
 protected:
  FakeDevice() {
    fake_cuda_default_config(&config);
    config.stuck_after_ns = 100'000'000;
  }

  // With `config`, the primary context current.
  void start() {
    fake_cuda_reset(&config);
    Result<Driver> opened = open_driver(FAKE_CUDA_LIBRARY);
    ASSERT_TRUE(opened) << opened.error().message;
    driver = *opened;
    ASSERT_EQ(driver.init(0), CuResult::kSuccess);
    ASSERT_EQ(driver.primary_context_retain(&primary, 0), CuResult::kSuccess);
    ASSERT_EQ(driver.context_set_current(primary), CuResult::kSuccess);
  }
  void SetUp() override { start(); }
  void TearDown() override {
    EXPECT_THAT(violations(), ::testing::IsEmpty());
    fake_cuda_reset(&config);
  }

  // Lines of the driver's log (config.log_calls) from this one on that begin with this call.
  static std::size_t calls(std::string_view name, std::size_t from) {
    std::size_t count = 0;
    std::string line(200, ' ');
    for (std::size_t i = from; i < fake_cuda_log_lines(); ++i) {
      const std::size_t bytes = fake_cuda_log(i, line.data(), line.size());
      count += std::string_view(line).substr(0, bytes).starts_with(name) ? 1U : 0U;
    }
    return count;
  }
  // From now on every copy takes so long, besides its bytes.
  void slow_copies(std::int64_t each_ns) {
    config.copy_ns = each_ns;
    fake_cuda_change(&config);
  }

  // Their kinds, and no more of them.
  static std::vector<int> take_violations() {
    std::vector<int> kinds;
    char text[512];
    for (std::size_t i = 0; i < fake_cuda_violations(); ++i) {
      kinds.push_back(fake_cuda_violation(i, text, sizeof text));
    }
    fake_cuda_clear_violations();
    return kinds;
  }
  static std::vector<std::string> violations() {
    std::vector<std::string> texts;
    char text[512];
    for (std::size_t i = 0; fake_cuda_violation(i, text, sizeof text) >= 0; ++i) {
      texts.emplace_back(text);
    }
    return texts;
  }
  static FakeCudaCounters counters() {
    FakeCudaCounters all;
    fake_cuda_counters(&all);
    return all;
  }

  CuAddress reserve(std::uint64_t bytes) const {
    CuAddress address = 0;
    EXPECT_EQ(driver.address_reserve(&address, bytes, 0, 0, 0), CuResult::kSuccess);
    return address;
  }
  CuMemHandle create(std::uint64_t bytes) const {
    CuAllocationProperties properties{};
    properties.type = CuAllocationType::kPinned;
    properties.location = {CuLocationType::kDevice, 0};
    CuMemHandle handle = 0;
    EXPECT_EQ(driver.memory_create(&handle, bytes, &properties, 0), CuResult::kSuccess);
    return handle;
  }
  void map(CuAddress address, CuMemHandle handle, std::uint64_t bytes = kTwoMiB) const {
    EXPECT_EQ(driver.memory_map(address, bytes, 0, handle, 0), CuResult::kSuccess);
    EXPECT_EQ(driver.memory_set_access(address, bytes, &kMayWrite, 1), CuResult::kSuccess);
  }
  // Reserved, mapped, with access.
  CuAddress memory(std::uint64_t bytes = kTwoMiB) const {
    const CuAddress address = reserve(bytes);
    map(address, create(bytes), bytes);
    return address;
  }
  template <typename T = std::uint64_t>
  T* pinned(std::uint64_t count) const {
    void* host = nullptr;
    EXPECT_EQ(driver.host_alloc(&host, count * sizeof(T), kCuHostAllocPortable),
              CuResult::kSuccess);
    return static_cast<T*>(host);
  }
  CuStream stream() const {
    CuStream made = nullptr;
    EXPECT_EQ(driver.stream_create(&made, kCuStreamNonBlocking, 0), CuResult::kSuccess);
    return made;
  }
  CuEvent event(unsigned flags = kCuEventDisableTiming) const {
    CuEvent made = nullptr;
    EXPECT_EQ(driver.event_create(&made, flags), CuResult::kSuccess);
    return made;
  }
  // Another context, current from now on.
  CuContext second_context() const {
    CuContext made = nullptr;
    EXPECT_EQ(driver.context_create(&made, 0, 0), CuResult::kSuccess);
    return made;
  }
  template <typename... Values>
  CuResult launch(CuFunction function, CuStream on, Values... values) const {
    auto all = test::parameters(values...);
    return driver.launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, on, all.pointers.data(), nullptr);
  }
  // A pending stream wait on the stream; open(gate) satisfies it.
  std::uint64_t* close(CuStream on) const {
    std::uint64_t* gate = pinned(1);
    EXPECT_EQ(driver.stream_wait_value(on, address_of(gate), 1, kCuWaitAtLeast),
              CuResult::kSuccess);
    return gate;
  }
  static void open(std::uint64_t* gate) { __atomic_store_n(gate, 1, __ATOMIC_RELEASE); }
  static CuAddress address_of(const void* pointer) { return reinterpret_cast<CuAddress>(pointer); }
  template <typename Done>
  static bool soon(const Done& done) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return done();
  }
  static void runs_now(CuStream on) {
    EXPECT_TRUE(soon([&] { return fake_cuda_stream_works(on) != 0; }));
  }
  // The stream stands at a stream wait now.
  static bool gate_reached(std::uint64_t gates = 1) {
    return soon([&] { return counters().gates_waited >= gates; });
  }

  FakeCudaConfig config{};
  Driver driver;
  CuContext primary = nullptr;
};

}  // namespace spillway::cuda
