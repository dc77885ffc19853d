// The fake driver's memory: what it does, and each rule broken once (docs/testing.md).
#include "base/sanitizers.h"
#include "platform/cuda/fake_device.h"

namespace spillway::cuda {
namespace {

using ::testing::ElementsAre;
using FakeMemory = FakeDevice;

TEST_F(FakeMemory, HoldsWhatIsWritten) {
  const CuAddress at = memory();
  std::uint64_t* host = pinned(1000);
  CuStream on = stream();
  EXPECT_EQ(launch(test::kernels().fill, on, at, 1000, 7), CuResult::kSuccess);
  EXPECT_EQ(driver.copy_out(host, at, 8000, on), CuResult::kSuccess);
  EXPECT_EQ(driver.stream_synchronize(on), CuResult::kSuccess);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(host[i], test::pattern(7, i));
  }
}

TEST_F(FakeMemory, NewHandlesAreNotZero) {
  const CuAddress at = memory();
  std::uint64_t* host = pinned(1);
  driver.copy_out(host, at, 8, nullptr);
  driver.stream_synchronize(nullptr);
  EXPECT_EQ(*host, 0xA5A5A5A5A5A5A5A5ULL);
}

TEST_F(FakeMemory, HandlesKeepTheirBytesUnderOtherAddressesAndUnderTwo) {
  const CuMemHandle handle = create(kTwoMiB);
  const CuAddress space = reserve(4 * kTwoMiB);
  map(space, handle);
  launch(test::kernels().fill, nullptr, space, 100, 3);
  driver.stream_synchronize(nullptr);
  map(space + kTwoMiB, handle);
  EXPECT_EQ(driver.memory_unmap(space, kTwoMiB), CuResult::kSuccess);
  EXPECT_EQ(driver.memory_unmap(space + kTwoMiB, kTwoMiB), CuResult::kSuccess);
  map(space + 3 * kTwoMiB, handle);
  std::uint64_t* wrong = pinned(1);
  launch(test::kernels().rewrite, nullptr, space + 3 * kTwoMiB, 100, 3, 4, address_of(wrong));
  driver.stream_synchronize(nullptr);
  EXPECT_EQ(*wrong, 0U);
}

TEST_F(FakeMemory, AHandleLivesWhileItIsMapped) {
  const CuMemHandle handle = create(kTwoMiB);
  const CuAddress at = reserve(kTwoMiB);
  map(at, handle);
  EXPECT_EQ(driver.memory_release(handle), CuResult::kSuccess);
  EXPECT_EQ(counters().handle_bytes, kTwoMiB);
  EXPECT_EQ(driver.set_bytes(at, 1, kTwoMiB, nullptr), CuResult::kSuccess);
  driver.stream_synchronize(nullptr);
  EXPECT_EQ(driver.memory_unmap(at, kTwoMiB), CuResult::kSuccess);
  EXPECT_EQ(counters().handle_bytes, 0U);
  EXPECT_EQ(driver.memory_release(handle), CuResult::kInvalidValue);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_BAD_HANDLE));
  EXPECT_EQ(driver.memory_map(at, kTwoMiB, 0, handle, 0), CuResult::kInvalidValue);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_BAD_HANDLE));
}

TEST_F(FakeMemory, TheDeviceHoldsNoMoreThanItsBytes) {
  config.device_bytes = 12 * kTwoMiB;
  config.context_bytes = 2 * kTwoMiB;
  start();
  const CuMemHandle large = create(8 * kTwoMiB);
  CuAllocationProperties properties{};
  properties.type = CuAllocationType::kPinned;
  properties.location = {CuLocationType::kDevice, 0};
  CuMemHandle handle = 0;
  EXPECT_EQ(driver.memory_create(&handle, 3 * kTwoMiB, &properties, 0), CuResult::kOutOfMemory);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  driver.memory_info(&free_bytes, &total_bytes);
  EXPECT_EQ(free_bytes, 2 * kTwoMiB);
  EXPECT_EQ(total_bytes, 12 * kTwoMiB);
  second_context();
  EXPECT_EQ(driver.memory_create(&handle, kTwoMiB, &properties, 0), CuResult::kOutOfMemory);
  driver.memory_release(large);
  create(kTwoMiB);
  EXPECT_EQ(counters().peak_handle_bytes, 8 * kTwoMiB);
  EXPECT_EQ(counters().peak_device_bytes, 12 * kTwoMiB);
  properties.location = {CuLocationType::kHostNuma, 0};
  EXPECT_EQ(driver.memory_create(&handle, 100 * kTwoMiB, &properties, 0), CuResult::kSuccess);
  EXPECT_EQ(counters().host_handle_bytes, 100 * kTwoMiB);
}

TEST_F(FakeMemory, NothingIsMappedOverAMap) {
  const CuAddress at = memory(2 * kTwoMiB);
  EXPECT_EQ(driver.memory_map(at + kTwoMiB, kTwoMiB, 0, create(kTwoMiB), 0),
            CuResult::kInvalidValue);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_MAP_OVER_MAP));
}

TEST_F(FakeMemory, APartOfAHandleCannotBeMappedUnmappedOrGivenAccess) {
  const CuMemHandle handle = create(2 * kTwoMiB);
  const CuAddress at = reserve(4 * kTwoMiB);
  EXPECT_EQ(driver.memory_map(at, kTwoMiB, 0, handle, 0), CuResult::kNotSupported);
  EXPECT_EQ(driver.memory_map(at, kTwoMiB, kTwoMiB, handle, 0), CuResult::kNotSupported);
  map(at, handle, 2 * kTwoMiB);
  EXPECT_EQ(driver.memory_unmap(at, kTwoMiB), CuResult::kInvalidValue);
  EXPECT_EQ(driver.memory_unmap(at + kTwoMiB, kTwoMiB), CuResult::kInvalidValue);
  EXPECT_EQ(driver.memory_set_access(at, kTwoMiB, &kMayWrite, 1), CuResult::kInvalidValue);
  EXPECT_THAT(take_violations(), ::testing::Each(FAKE_CUDA_PART_OF_HANDLE));
}

TEST_F(FakeMemory, OneCallTakesSeveralHandlesSideBySide) {
  const CuAddress at = reserve(8 * kTwoMiB);
  for (const std::uint64_t i : {0ULL, 1ULL, 2ULL}) {
    EXPECT_EQ(driver.memory_map(at + i * kTwoMiB, kTwoMiB, 0, create(kTwoMiB), 0),
              CuResult::kSuccess);
  }
  EXPECT_EQ(driver.memory_set_access(at, 3 * kTwoMiB, &kMayWrite, 1), CuResult::kSuccess);
  EXPECT_EQ(driver.set_bytes(at, 1, 3 * kTwoMiB, nullptr), CuResult::kSuccess);
  driver.stream_synchronize(nullptr);
  EXPECT_EQ(driver.memory_unmap(at, 4 * kTwoMiB), CuResult::kInvalidValue) << "there is a gap";
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_NOT_MAPPED));
  EXPECT_EQ(driver.memory_unmap(at, 3 * kTwoMiB), CuResult::kSuccess);
  EXPECT_EQ(counters().mappings, 0U);
}

TEST_F(FakeMemory, MapsStayInsideReservations) {
  const CuAddress at = reserve(2 * kTwoMiB);
  const CuMemHandle handle = create(2 * kTwoMiB);
  EXPECT_EQ(driver.memory_map(at + kTwoMiB, 2 * kTwoMiB, 0, handle, 0), CuResult::kInvalidValue);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_NOT_RESERVED));
  EXPECT_EQ(driver.address_free(at, kTwoMiB), CuResult::kInvalidValue) << "not all of it";
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_NOT_RESERVED));
  map(at, handle, 2 * kTwoMiB);
  EXPECT_EQ(driver.address_free(at, 2 * kTwoMiB), CuResult::kInvalidValue) << "mapped";
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_NOT_RESERVED));
  driver.memory_unmap(at, 2 * kTwoMiB);
  EXPECT_EQ(driver.address_free(at, 2 * kTwoMiB), CuResult::kSuccess);
}

TEST_F(FakeMemory, CopiesAndMemsetsAreRefusedWithoutMemoryOrAccess) {
  const CuAddress at = reserve(kTwoMiB);
  std::uint64_t* host = pinned(8);
  const auto all_refused = [&] {
    return driver.copy_in(at, host, 64, nullptr) == CuResult::kInvalidValue &&
           driver.copy_out(host, at, 64, nullptr) == CuResult::kInvalidValue &&
           driver.copy_within(at, at + 64, 64, nullptr) == CuResult::kInvalidValue &&
           driver.set_bytes(at, 0, 64, nullptr) == CuResult::kInvalidValue &&
           driver.stream_write_value(nullptr, at, 1, 0) == CuResult::kInvalidValue &&
           driver.stream_wait_value(nullptr, at, 1, 0) == CuResult::kInvalidValue;
  };
  EXPECT_TRUE(all_refused());
  EXPECT_EQ(driver.memory_map(at, kTwoMiB, 0, create(kTwoMiB), 0), CuResult::kSuccess);
  EXPECT_TRUE(all_refused()) << "mapped, and nobody was given access";
  const CuAccessDescription read{{CuLocationType::kDevice, 0}, CuAccess::kRead};
  driver.memory_set_access(at, kTwoMiB, &read, 1);
  EXPECT_EQ(driver.copy_out(host, at, 64, nullptr), CuResult::kSuccess);
  EXPECT_EQ(driver.copy_in(at, host, 64, nullptr), CuResult::kInvalidValue);
  driver.stream_synchronize(nullptr);
}

TEST_F(FakeMemory, TheCopyThatGuessesDiesWithoutMemory) {
  const CuAddress at = reserve(2 * kTwoMiB);
  std::uint64_t* host = pinned(8);
  EXPECT_EQ(driver.copy_any(at, address_of(host), 64, nullptr), CuResult::kInvalidValue);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_CRASH));
  map(at, create(kTwoMiB));
  host[0] = 42;
  EXPECT_EQ(driver.copy_any(at, address_of(host), 8, nullptr), CuResult::kSuccess);
  EXPECT_EQ(driver.copy_any(at + 64, at, 8, nullptr), CuResult::kSuccess);
  EXPECT_EQ(driver.copy_any(address_of(host + 1), at + 64, 8, nullptr), CuResult::kSuccess);
  driver.stream_synchronize(nullptr);
  EXPECT_EQ(host[1], 42U);
}

TEST_F(FakeMemory, AKernelMayBeIssuedWithoutMemoryButNotRun) {
  const CuAddress at = reserve(2 * kTwoMiB);
  CuStream on = stream();
  std::uint64_t* gate = close(on);
  EXPECT_EQ(launch(test::kernels().fill, on, at, 10, 1), CuResult::kSuccess);
  ASSERT_TRUE(gate_reached());
  map(at, create(kTwoMiB));
  open(gate);
  EXPECT_EQ(driver.stream_synchronize(on), CuResult::kSuccess);

  EXPECT_EQ(launch(test::kernels().fill, on, at + kTwoMiB, 10, 1), CuResult::kSuccess);
  EXPECT_EQ(driver.stream_synchronize(on), CuResult::kIllegalAddress);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_UNMAPPED_ACCESS));
  EXPECT_EQ(driver.set_bytes(at, 0, 8, on), CuResult::kIllegalAddress) << "it sticks";
}

TEST_F(FakeMemory, WhatRunsKeepsItsMemory) {
  const CuAddress at = memory();
  CuStream on = stream();
  config.launch_ns = 100'000'000;
  fake_cuda_change(&config);
  launch(test::kernels().fill, on, at, 10, 1);
  runs_now(on);
  EXPECT_EQ(driver.memory_unmap(at, kTwoMiB), CuResult::kSuccess) << "when it has ended";
  EXPECT_EQ(driver.stream_query(on), CuResult::kSuccess);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_TAKEN_WHILE_RUNNING));
}

// ThreadSanitizer notices as well, and ends the program.
#if !SPILLWAY_THREAD_SANITIZER
TEST_F(FakeMemory, ACopyBesideAKernelThatWritesTheSameIsARace) {
  const CuAddress at = memory();
  CuStream one = stream();
  CuStream other = stream();
  config.launch_ns = 100'000'000;
  fake_cuda_change(&config);
  std::uint64_t* host = pinned(8);
  launch(test::kernels().fill, one, at + 4096, 10, 1);
  runs_now(one);
  driver.copy_out(host, at, 64, other);
  driver.stream_synchronize(other);
  EXPECT_THAT(take_violations(), ::testing::IsEmpty()) << "another place";
  driver.copy_out(host, at + 4096, 64, other);
  driver.context_synchronize();
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_RACE));
}
#endif

TEST_F(FakeMemory, PinnedMemoryStaysWhileItIsUsed) {
  const CuAddress at = memory();
  CuStream on = stream();
  std::vector<std::uint64_t> host(16);
  EXPECT_EQ(driver.host_register(host.data(), 128, 0), CuResult::kSuccess);
  EXPECT_EQ(driver.host_register(host.data() + 8, 8, 0), CuResult::kHostMemoryAlreadyRegistered);
  CuAddress seen = 0;
  EXPECT_EQ(driver.host_device_pointer(&seen, host.data() + 8, 0), CuResult::kSuccess);
  EXPECT_EQ(seen, address_of(host.data() + 8));
  // From another context it waits for nothing of this one.
  fake_cuda_hold_stream(on, 1);
  EXPECT_EQ(driver.copy_in(at, host.data(), 128, on), CuResult::kSuccess);
  second_context();
  EXPECT_EQ(driver.host_unregister(host.data()), CuResult::kSuccess);
  EXPECT_EQ(driver.host_unregister(host.data()), CuResult::kHostMemoryNotRegistered);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_BAD_HANDLE));
  driver.context_set_current(primary);
  fake_cuda_hold_stream(on, 0);
  EXPECT_EQ(driver.stream_synchronize(on), CuResult::kIllegalAddress);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_HOST_MEMORY));
}

TEST_F(FakeMemory, PlainAllocationsLieInReservationsOfTheirOwn) {
  CuAddress at = 0;
  ASSERT_EQ(driver.memory_alloc(&at, 100), CuResult::kSuccess);
  EXPECT_EQ(driver.set_bytes(at, 1, 100, nullptr), CuResult::kSuccess);
  EXPECT_EQ(driver.memory_free(at), CuResult::kSuccess);
  EXPECT_EQ(counters().handle_bytes + counters().reservations, 0U);
  EXPECT_EQ(driver.memory_free(at), CuResult::kInvalidValue);
  EXPECT_THAT(take_violations(), ElementsAre(FAKE_CUDA_BAD_HANDLE));
}

}  // namespace
}  // namespace spillway::cuda
