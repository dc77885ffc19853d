// The near device with a GPU of the CUDA driver's: copies in its primary context, and what the
// driver refuses.
#include <numeric>
#include <thread>
#include <vector>

#include "platform/cuda/fake_device.h"
#include "platform/near/device.h"
#include "platform/near/memory/cuda_memory.h"

namespace spillway::near {
namespace {

using cuda::CuContext;
using cuda::CuResult;
using ::testing::HasSubstr;
using ::testing::Not;

class NearGpu : public cuda::FakeDevice {
 protected:
  void SetUp() override {
    FakeDevice::SetUp();
    if (HasFatalFailure()) {
      return;
    }
    Result<std::unique_ptr<GpuMemory>> opened = open_cuda_memory(0, FAKE_CUDA_LIBRARY);
    ASSERT_TRUE(opened) << opened.error().message;
    memory = std::move(*opened);
  }
  void TearDown() override {
    memory.reset();
    FakeDevice::TearDown();
  }
  std::unique_ptr<GpuMemory> memory;
};

TEST_F(NearGpu, CopiesInOutAndWithin) {
  constexpr Bytes kBytes = 3 * kMiB;
  const Result<Address> first = memory->allocate(kBytes);
  const Result<Address> second = memory->allocate(kBytes);
  ASSERT_TRUE(first && second);
  std::vector<char> values(kBytes);
  std::iota(values.begin(), values.end(), static_cast<char>(1));
  std::vector<char> back(kBytes);
  ASSERT_TRUE(memory->copy_in(*first, values.data(), kBytes));
  ASSERT_TRUE(memory->copy_within(*second + 5, *first, kBytes - 5));
  ASSERT_TRUE(memory->copy_out(back.data(), *second + 5, kBytes - 5));
  values.resize(kBytes - 5);
  back.resize(kBytes - 5);
  EXPECT_EQ(back, values);
  EXPECT_TRUE(memory->free(*first));
  EXPECT_TRUE(memory->free(*second));
}

// A thread without a context of its own, and one whose context is another: both stay as they were.
TEST_F(NearGpu, LeavesTheThreadsContextAsItWas) {
  const CuContext other = second_context();
  const Result<Address> on_gpu = memory->allocate(8);
  ASSERT_TRUE(on_gpu);
  CuContext now = nullptr;
  EXPECT_EQ(driver.context_get_current(&now), CuResult::kSuccess);
  EXPECT_EQ(now, other);
  std::thread([&] {
    const std::uint64_t value = 7;
    EXPECT_TRUE(memory->copy_in(*on_gpu, &value, 8));
    CuContext none = other;
    EXPECT_EQ(driver.context_get_current(&none), CuResult::kSuccess);
    EXPECT_EQ(none, nullptr);
  }).join();
  EXPECT_TRUE(memory->free(*on_gpu));
  EXPECT_EQ(driver.context_set_current(primary), CuResult::kSuccess);
  EXPECT_EQ(driver.context_destroy(other), CuResult::kSuccess);
}

TEST_F(NearGpu, SaysWhichCallWasRefused) {
  const Result<Address> too_much = memory->allocate(kTiB);
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().code, ErrorCode::kNoRoom);
  EXPECT_THAT(too_much.error().message, HasSubstr("cuMemAlloc"));
  EXPECT_THAT(too_much.error().message, Not(HasSubstr("\n")));
  const Result<std::unique_ptr<GpuMemory>> none = open_cuda_memory(99, FAKE_CUDA_LIBRARY);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
  const Result<std::unique_ptr<GpuMemory>> nowhere = open_cuda_memory(0, "/nowhere/libcuda.so.1");
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr("/nowhere/libcuda.so.1"));
}

// The whole way: near memory to the GPU, from there to storage, and back.
TEST_F(NearGpu, ADeviceCopiesBetweenItsMemoryGpuAndStorage) {
  constexpr Bytes kBytes = 5 * kMiB;
  DeviceOptions options;
  options.channel_bytes = 16 * kMiB;
  options.open_gpu = [] { return open_cuda_memory(0, FAKE_CUDA_LIBRARY); };
  const Result<std::unique_ptr<Device>> device = Device::open(options);
  ASSERT_TRUE(device);
  const Result<std::uint32_t> storage = (*device)->register_storage(SPILLWAY_SOURCE_DIR, 16 * kMiB);
  const Result<char*> from = (*device)->allocate(kBytes, 0);
  const Result<char*> to = (*device)->allocate(kBytes, 1);
  const Result<Address> on_gpu = (*device)->allocate_on_gpu(kBytes);
  ASSERT_TRUE(storage && from && to && on_gpu);
  const Result<Address> place = (*device)->allocate_on_storage(kBytes, *storage);
  ASSERT_TRUE(place);
  std::iota(*from, *from + kBytes, static_cast<char>(3));
  ASSERT_TRUE((*device)->copy(at_gpu(*on_gpu), at_near(*from), kBytes));
  ASSERT_TRUE((*device)->copy(at_storage(*place), at_gpu(*on_gpu), kBytes));
  std::fill_n(*from, kBytes, static_cast<char>(0));
  ASSERT_TRUE((*device)->copy(at_gpu(*on_gpu), at_near(*from), kBytes));
  ASSERT_TRUE((*device)->copy(at_gpu(*on_gpu), at_storage(*place), kBytes));
  ASSERT_TRUE((*device)->copy(at_near(*to), at_gpu(*on_gpu), kBytes));
  for (Bytes i = 0; i < kBytes; ++i) {
    ASSERT_EQ((*to)[i], static_cast<char>(i + 3)) << i;
  }
}

}  // namespace
}  // namespace spillway::near
