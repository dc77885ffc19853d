// The fake driver's streams: order, events, stream waits, the null stream, contexts.
#include "platform/cuda/fake_device.h"

namespace spillway::cuda {
namespace {

using ::testing::ElementsAre;
using FakeStreams = FakeDevice;

TEST_F(FakeStreams, AStreamWorksInOrderAndOthersBesideIt) {
  const CuAddress at = memory();
  CuStream held = stream();
  CuStream free = stream();
  std::uint64_t* wrong = pinned(1);
  fake_cuda_hold_stream(held, 1);
  launch(test::kernels().fill, held, at, 1000, 0);
  for (std::uint64_t i = 0; i < 100; ++i) {
    launch(test::kernels().rewrite, held, at, 1000, i, i + 1, address_of(wrong));
  }
  EXPECT_EQ(driver.set_bytes(at + 8000, 1, 8, free), CuResult::kSuccess);
  EXPECT_EQ(driver.stream_synchronize(free), CuResult::kSuccess);
  EXPECT_EQ(driver.stream_query(held), CuResult::kNotReady);
  EXPECT_EQ(counters().launches, 0U);
  fake_cuda_hold_stream(held, 0);
  EXPECT_EQ(driver.stream_synchronize(held), CuResult::kSuccess);
  EXPECT_EQ(driver.stream_query(held), CuResult::kSuccess);
  EXPECT_EQ(*wrong, 0U);
  EXPECT_EQ(counters().launches, 101U);
}

// For a time as short as it takes to look twice: it is over at any moment of a look.
TEST_F(FakeStreams, AStreamThatHasStoodLongEnoughGoesOn) {
  config.stream_stands = 1;
  for (config.slow_ns = 10; config.slow_ns <= 200; config.slow_ns += 10) {
    start();
    CuStream on = stream();
    std::uint64_t* const word = pinned(1);
    for (std::uint64_t i = 1; i <= 200; ++i) {
      ASSERT_EQ(driver.stream_write_value(on, address_of(word), i, 0), CuResult::kSuccess);
    }
    EXPECT_EQ(driver.stream_synchronize(on), CuResult::kSuccess);
    EXPECT_EQ(*word, 200U);
  }
}

TEST_F(FakeStreams, ParametersAreTakenWhenTheLaunchIsIssued) {
  const CuAddress at = memory();
  CuStream on = stream();
  fake_cuda_hold_stream(on, 1);
  auto all = test::parameters(at, 10, 5);
  struct {
    std::uint64_t at, words, seed;
  } block{at + 80, 10, 6};
  std::size_t bytes = sizeof block;
  // NOLINTBEGIN(performance-no-int-to-ptr)
  void* extra[] = {reinterpret_cast<void*>(kCuExtraBuffer), &block,
                   reinterpret_cast<void*>(kCuExtraBufferBytes), &bytes,
                   reinterpret_cast<void*>(kCuExtraEnd)};
  // NOLINTEND(performance-no-int-to-ptr)
  CuLaunchConfig how{1, 1, 1, 1, 1, 1, 0, on, nullptr, 0};
  EXPECT_EQ(driver.launch_kernel_ex(&how, test::kernels().fill, all.pointers.data(), nullptr),
            CuResult::kSuccess);
  EXPECT_EQ(driver.launch_kernel_ex(&how, test::kernels().fill, nullptr, extra),
            CuResult::kSuccess);
  how.grid_y = 0;
  EXPECT_EQ(driver.launch_kernel_ex(&how, test::kernels().fill, all.pointers.data(), nullptr),
            CuResult::kInvalidValue);
  all.values = {0, 0, 0};
  block = {};
  fake_cuda_hold_stream(on, 0);
  std::uint64_t* host = pinned(20);
  driver.copy_out(host, at, 160, on);
  EXPECT_EQ(driver.stream_synchronize(on), CuResult::kSuccess);
  EXPECT_EQ(host[9], test::pattern(5, 9));
  EXPECT_EQ(host[19], test::pattern(6, 9));
}

TEST_F(FakeStreams, FunctionsAndKernelsSayTheirParameters) {
  CuFunction function = test::kernels().rewrite;
  auto* kernel = static_cast<CuKernel>(fake_cuda_kernel_of(function));
  std::size_t offset = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(driver.function_parameter(function, 4, &offset, &bytes), CuResult::kSuccess);
  EXPECT_EQ(offset, 32U);
  EXPECT_EQ(bytes, 8U);
  EXPECT_EQ(driver.function_parameter(function, 5, &offset, &bytes), CuResult::kInvalidValue);
  EXPECT_EQ(driver.kernel_parameter(kernel, 0, &offset, nullptr), CuResult::kSuccess);
  EXPECT_EQ(driver.kernel_parameter(reinterpret_cast<CuKernel>(function), 0, &offset, nullptr),
            CuResult::kInvalidHandle);
  EXPECT_EQ(launch(reinterpret_cast<CuFunction>(kernel), nullptr, memory(), 0, 0, 0,
                   address_of(pinned(1))),
            CuResult::kSuccess);
  EXPECT_EQ(driver.stream_synchronize(nullptr), CuResult::kSuccess);
}

TEST_F(FakeStreams, EventsOrderStreamsAlsoOfTwoContexts) {
  const CuAddress at = memory();
  CuStream first = stream();
  CuEvent recorded = event();
  fake_cuda_hold_stream(first, 1);
  launch(test::kernels().fill, first, at, 10, 1);
  EXPECT_EQ(driver.event_query(recorded), CuResult::kSuccess) << "never recorded";
  driver.event_record(recorded, first);
  EXPECT_EQ(driver.event_query(recorded), CuResult::kNotReady);
  second_context();
  CuStream second = stream();
  EXPECT_EQ(driver.stream_wait_event(second, recorded, 0), CuResult::kSuccess);
  std::uint64_t* host = pinned(10);
  driver.copy_out(host, at, 80, second);
  EXPECT_EQ(driver.stream_query(second), CuResult::kNotReady);
  EXPECT_EQ(driver.event_record(recorded, second), CuResult::kInvalidHandle);
  EXPECT_EQ(driver.set_bytes(at, 0, 8, first), CuResult::kInvalidHandle);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_WRONG_CONTEXT, FAKE_CUDA_WRONG_CONTEXT));
  fake_cuda_hold_stream(first, 0);
  EXPECT_EQ(driver.stream_synchronize(second), CuResult::kSuccess);
  EXPECT_EQ(driver.event_query(recorded), CuResult::kSuccess);
  EXPECT_EQ(host[9], test::pattern(1, 9));
}

TEST_F(FakeStreams, AWaitForAnEventIsForItsLastRecording) {
  CuStream one = stream();
  CuStream other = stream();
  CuEvent recorded = event();
  driver.event_record(recorded, one);
  EXPECT_EQ(driver.event_synchronize(recorded), CuResult::kSuccess);
  driver.stream_wait_event(other, recorded, 0);
  fake_cuda_hold_stream(one, 1);
  driver.event_record(recorded, one);
  EXPECT_EQ(driver.stream_synchronize(other), CuResult::kSuccess) << "the one before";
  driver.stream_wait_event(other, recorded, 0);
  EXPECT_EQ(driver.stream_query(other), CuResult::kNotReady);
  driver.event_destroy(recorded);
  fake_cuda_hold_stream(one, 0);
  EXPECT_EQ(driver.stream_synchronize(other), CuResult::kSuccess);
}

TEST_F(FakeStreams, EventsMeasureTime) {
  config.launch_ns = 5'000'000;
  fake_cuda_change(&config);
  CuEvent from = event(kCuEventDefault);
  CuEvent to = event(kCuEventDefault);
  CuStream on = stream();
  float milliseconds = 0;
  EXPECT_EQ(driver.event_elapsed(&milliseconds, from, to), CuResult::kInvalidHandle);
  driver.event_record(from, on);
  launch(test::kernels().fill, on, memory(), 10, 1);
  driver.event_record(to, on);
  EXPECT_EQ(driver.event_elapsed(&milliseconds, from, to), CuResult::kNotReady);
  driver.event_synchronize(to);
  EXPECT_EQ(driver.event_elapsed(&milliseconds, from, to), CuResult::kSuccess);
  EXPECT_GE(milliseconds, 4.9F);
  EXPECT_EQ(driver.event_elapsed(&milliseconds, from, event()), CuResult::kInvalidHandle);
}

TEST_F(FakeStreams, AGateOpensByAStoreAndByAnotherStream) {
  const CuAddress at = memory();
  CuStream on = stream();
  std::uint64_t* gate = pinned(2);
  std::uint64_t* marker = gate + 1;
  driver.stream_wait_value(on, address_of(gate), 5, kCuWaitAtLeast);
  launch(test::kernels().fill, on, at, 10, 1);
  driver.stream_write_value(on, address_of(marker), 1, 0);
  driver.stream_wait_value(on, address_of(gate), 7, kCuWaitEqual);
  driver.stream_write_value(on, address_of(marker), 2, 0);
  ASSERT_TRUE(gate_reached());
  const auto seen = [&] { return __atomic_load_n(marker, __ATOMIC_ACQUIRE); };
  __atomic_store_n(gate, 4, __ATOMIC_RELEASE);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(seen(), 0U);
  __atomic_store_n(gate, 6, __ATOMIC_RELEASE);
  EXPECT_TRUE(soon([&] { return seen() == 1; }));
  CuStream opener = stream();
  driver.stream_write_value(opener, address_of(gate), 7, 0);
  EXPECT_EQ(driver.stream_synchronize(on), CuResult::kSuccess);
  EXPECT_EQ(seen(), 2U);
  driver.stream_wait_value(on, address_of(gate), 4, kCuWaitAnyBit);
  driver.stream_wait_value(on, address_of(gate), 0, kCuWaitNor);
  EXPECT_EQ(driver.stream_synchronize(on), CuResult::kSuccess);
  EXPECT_EQ(driver.stream_wait_value(on, address_of(gate) + 4, 1, 0), CuResult::kInvalidValue);
  std::uint64_t pageable = 1;
  EXPECT_EQ(driver.stream_wait_value(on, address_of(&pageable), 1, 0), CuResult::kInvalidValue);
}

TEST_F(FakeStreams, TheNullStreamIsOrderedWithBlockingStreamsOnly) {
  CuStream blocking = nullptr;
  driver.stream_create(&blocking, kCuStreamDefault, 0);
  CuStream other = stream();
  const CuAddress at = memory();
  fake_cuda_hold_stream(blocking, 1);
  driver.set_bytes(at, 1, 8, blocking);
  driver.set_bytes(at, 2, 8, nullptr);
  driver.set_bytes(at + 8, 3, 8, other);
  EXPECT_EQ(driver.stream_synchronize(other), CuResult::kSuccess);
  EXPECT_EQ(driver.stream_query(nullptr), CuResult::kNotReady);
  fake_cuda_hold_stream(nullptr, 1);
  fake_cuda_hold_stream(blocking, 0);
  driver.set_bytes(at, 4, 8, blocking);
  EXPECT_TRUE(soon([&] { return counters().memsets == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(counters().memsets, 2U) << "the last one is behind the null stream";
  fake_cuda_hold_stream(nullptr, 0);
  std::uint64_t* host = pinned(1);
  driver.copy_out(host, at, 8, blocking);
  EXPECT_EQ(driver.stream_synchronize(blocking), CuResult::kSuccess);
  EXPECT_EQ(*host, 0x0404040404040404ULL);
}

TEST_F(FakeStreams, HostFunctionsRunInOrderAndCallNothing) {
  CuStream on = stream();
  struct Seen {
    Driver* driver;
    CuResult result;
  } seen{&driver, CuResult::kSuccess};
  driver.launch_host_function(
      on,
      [](void* argument) {
        auto* it = static_cast<Seen*>(argument);
        it->result = it->driver->init(0);
      },
      &seen);
  EXPECT_EQ(driver.stream_synchronize(on), CuResult::kSuccess);
  EXPECT_EQ(seen.result, CuResult::kNotPermitted);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_CALL_IN_HOST_FUNCTION));
}

TEST_F(FakeStreams, WhatIsDestroyedIsGone) {
  CuStream on = stream();
  CuEvent recorded = event();
  const CuAddress at = memory();
  fake_cuda_hold_stream(on, 1);
  driver.set_bytes(at, 1, 8, on);
  EXPECT_EQ(driver.stream_destroy(on), CuResult::kSuccess);
  EXPECT_EQ(driver.stream_destroy(on), CuResult::kInvalidHandle);
  EXPECT_EQ(driver.set_bytes(at, 1, 8, on), CuResult::kInvalidHandle);
  driver.event_destroy(recorded);
  EXPECT_EQ(driver.event_query(recorded), CuResult::kInvalidHandle);
  EXPECT_THAT(take_violations(),
              ElementsAre(FAKE_CUDA_BAD_HANDLE, FAKE_CUDA_BAD_HANDLE, FAKE_CUDA_BAD_HANDLE));
  fake_cuda_hold_stream(on, 0);
  EXPECT_TRUE(soon([&] { return counters().memsets == 1; })) << "what was on it is done";
}

TEST_F(FakeStreams, ContextsCountAndStack) {
  CuContext again = nullptr;
  driver.primary_context_retain(&again, 0);
  EXPECT_EQ(again, primary);
  driver.primary_context_release(0);
  unsigned flags = 0;
  int active = 0;
  driver.primary_context_state(0, &flags, &active);
  EXPECT_EQ(active, 1);
  CuContext second = second_context();
  CuContext current = nullptr;
  driver.context_get_current(&current);
  EXPECT_EQ(current, second);
  EXPECT_EQ(driver.context_pop(&current), CuResult::kSuccess);
  driver.context_get_current(&current);
  EXPECT_EQ(current, primary);
  EXPECT_EQ(driver.context_push(second), CuResult::kSuccess);
  EXPECT_EQ(driver.context_destroy(second), CuResult::kSuccess);
  EXPECT_EQ(driver.context_set_current(second), CuResult::kInvalidContext);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_BAD_HANDLE));
  driver.context_set_current(nullptr);
  EXPECT_EQ(driver.context_synchronize(), CuResult::kInvalidContext);
  std::thread([&] {
    CuContext none = primary;
    driver.context_get_current(&none);
    EXPECT_EQ(none, nullptr) << "each thread has its own";
  }).join();
  EXPECT_EQ(driver.primary_context_release(0), CuResult::kSuccess);
  EXPECT_EQ(driver.primary_context_release(0), CuResult::kInvalidContext);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_BAD_HANDLE));
  EXPECT_EQ(counters().contexts, 0U);
}

TEST_F(FakeStreams, TheDeviceIsDescribed) {
  int value = 0;
  EXPECT_EQ(driver.device_attribute(&value, CuAttribute::kVirtualMemoryManagement, 0),
            CuResult::kSuccess);
  EXPECT_EQ(value, 1);
  fake_cuda_set_attribute(static_cast<int>(CuAttribute::kVirtualMemoryManagement), 0);
  driver.device_attribute(&value, CuAttribute::kVirtualMemoryManagement, 0);
  EXPECT_EQ(value, 0);
  char name[8];
  EXPECT_EQ(driver.device_name(name, sizeof name, 0), CuResult::kSuccess);
  EXPECT_STREQ(name, "Fake de");
  CuDevice device = 0;
  EXPECT_EQ(driver.device_get(&device, 1), CuResult::kInvalidDevice);
  fake_cuda_reset(&config);
  EXPECT_EQ(driver.device_get(&device, 0), CuResult::kNotInitialized);
}

TEST_F(FakeStreams, CallsAreLogged) {
  config.log_calls = 1;
  start();
  second_context();
  driver.memory_release(77);
  std::string last(200, '\0');
  last.resize(fake_cuda_log(fake_cuda_log_lines() - 1, last.data(), last.size()));
  EXPECT_EQ(last, "cuMemRelease(77) = 1 [2nd context]");
  take_violations();
}

}  // namespace
}  // namespace spillway::cuda
