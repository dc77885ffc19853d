// The near device through the C API, as a program in C uses it: steps of Adam, copies, and every
// misuse as a code and a line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "spillway/near.h"

namespace spillway::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void expect_near_error(spillwayError_t error, spillwayError_t expected, const char* words) {
  EXPECT_EQ(error, expected) << spillwayGetErrorName(error);
  EXPECT_THAT(spillwayGetLastErrorMessage(), HasSubstr(words));
  EXPECT_THAT(spillwayGetLastErrorMessage(), Not(HasSubstr("\n")));
}

class CapiNear : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(spillwayNearOptionsInit(&options_, sizeof(options_)), spillwaySuccess);
    options_.channelBytes = 1 << 20;
    options_.checkAccess = 1;
    ASSERT_EQ(spillwayNearOpen(&near_, &options_), spillwaySuccess) << line();
    ASSERT_EQ(spillwayNearRegisterStorage(&storage_, SPILLWAY_SOURCE_DIR, 16 << 20, near_),
              spillwaySuccess)
        << line();
  }
  void TearDown() override {
    if (near_ != nullptr) {
      EXPECT_EQ(spillwayNearSynchronize(near_), spillwaySuccess) << line();
      EXPECT_EQ(spillwayNearClose(near_), spillwaySuccess) << line();
    }
  }
  static std::string line() { return spillwayGetLastErrorMessage(); }
  float* floats(std::size_t count, std::uint32_t channel = 0) {
    void* start = nullptr;
    EXPECT_EQ(spillwayNearMalloc(&start, count * sizeof(float), channel, near_), spillwaySuccess)
        << line();
    return static_cast<float*>(start);
  }
  spillwayNearAdam_t adam(std::uint64_t count, std::uint32_t channel = 0) {
    spillwayNearAdam_t filled{};
    EXPECT_EQ(spillwayNearAdamInit(&filled, sizeof(filled)), spillwaySuccess);
    filled.parameter = floats(count, channel);
    filled.gradient = floats(count, channel);
    filled.expAvg = floats(count, channel);
    filled.expAvgSq = floats(count, channel);
    filled.count = count;
    return filled;
  }
  void mode(std::uint32_t channel, spillwayNearMode_t mode) {
    EXPECT_EQ(spillwayNearSetMode(channel, mode, near_), spillwaySuccess) << line();
  }

  spillwayNearOptions_t options_{};
  spillwayNear_t near_ = nullptr;
  std::uint32_t storage_ = 0;
};

TEST_F(CapiNear, StepsOfAdamDoWhatTheFormulaSays) {
  constexpr std::size_t kCount = 5000;
  spillwayNearAdam_t step = adam(kCount, 1);
  step.learningRate = 0.1;
  double parameter = 0;
  double first = 0;
  double second = 0;
  std::vector<float> gradient(kCount);
  for (int t = 1; t <= 5; ++t) {
    gradient.assign(kCount, static_cast<float>(t) - 2.5F);
    ASSERT_EQ(
        spillwayNearMemcpy(spillwayNearAtNear(step.gradient), spillwayNearAtHost(gradient.data()),
                           kCount * sizeof(float), near_),
        spillwaySuccess)
        << line();
    mode(1, spillwayNearModeAcceleration);
    step.step = static_cast<std::uint64_t>(t);
    spillwayNearKernel_t kernel = 0;
    ASSERT_EQ(spillwayNearAdamAsync(&kernel, &step, 1, near_), spillwaySuccess) << line();
    EXPECT_NE(kernel, 0U);
    ASSERT_EQ(spillwayNearWait(kernel, near_), spillwaySuccess);
    int ended = 0;
    ASSERT_EQ(spillwayNearPoll(&ended, kernel, near_), spillwaySuccess);
    EXPECT_EQ(ended, 1);
    mode(1, spillwayNearModeNormal);
    const double g = t - 2.5;
    first += (g - first) * 0.1;
    second += (g * g - second) * 0.001;
    parameter -= 0.1 * (first / (1 - std::pow(0.9, t))) /
                 (std::sqrt(second / (1 - std::pow(0.999, t))) + 1e-8);
  }
  for (const std::size_t i : {std::size_t{0}, std::size_t{4095}, kCount - 1}) {
    EXPECT_NEAR(static_cast<const float*>(step.parameter)[i], parameter, 1e-5);
  }
  spillwayNearChannelStatistics_t channel{};
  ASSERT_EQ(spillwayNearGetChannelStatistics(&channel, sizeof(channel), 1, near_), spillwaySuccess);
  EXPECT_EQ(channel.memoryBytes, 1U << 20);
  EXPECT_EQ(channel.kernels, 5U);
  EXPECT_EQ(channel.modeSwitches, 10U);
  EXPECT_GT(channel.kernelNs, 0U);
  spillwayNearStatistics_t all{};
  ASSERT_EQ(spillwayNearGetStatistics(&all, sizeof(all), near_), spillwaySuccess);
  EXPECT_EQ(all.copiedBytes[spillwayNearSideHost][spillwayNearSideNear],
            5 * kCount * sizeof(float));
  EXPECT_EQ(all.copies, 5U);
}

// Without decay a zero gradient changes nothing; with it, what Adam makes of decay * parameter.
TEST_F(CapiNear, DecayIsCoupledOrDecoupled) {
  spillwayNearAdam_t step = adam(10);
  step.learningRate = 0.1;
  step.weightDecay = 0.5;
  float* const parameter = static_cast<float*>(step.parameter);
  spillwayNearKernel_t kernel = 0;
  for (const std::uint32_t decoupled : {0U, 1U}) {
    step.decoupledDecay = decoupled;
    *parameter = 2;
    std::memset(step.expAvg, 0, sizeof(float));
    std::memset(step.expAvgSq, 0, sizeof(float));
    mode(0, spillwayNearModeAcceleration);
    ASSERT_EQ(spillwayNearAdamAsync(&kernel, &step, 0, near_), spillwaySuccess) << line();
    ASSERT_EQ(spillwayNearWait(kernel, near_), spillwaySuccess);
    mode(0, spillwayNearModeNormal);
    // The gradient is decay * 2 = 1 at the first step, or 0 and the parameter shrinks by itself.
    EXPECT_FLOAT_EQ(*parameter, decoupled == 0 ? 2 - 0.1F : 2 * (1 - 0.1F * 0.5F));
  }
}

TEST_F(CapiNear, MemoryGoesToStorageAndComesBack) {
  float* const values = floats(1000);
  for (int i = 0; i < 1000; ++i) values[i] = static_cast<float>(i);
  std::uint64_t place = 0;
  ASSERT_EQ(spillwayNearMallocStorage(&place, 4000, storage_, near_), spillwaySuccess) << line();
  ASSERT_EQ(
      spillwayNearMemcpy(spillwayNearAtStorage(place), spillwayNearAtNear(values), 4000, near_),
      spillwaySuccess)
      << line();
  float* const back = floats(1000, 1);
  ASSERT_EQ(
      spillwayNearMemcpy(spillwayNearAtNear(back), spillwayNearAtStorage(place + 400), 3600, near_),
      spillwaySuccess)
      << line();
  EXPECT_EQ(back[0], 100);
  EXPECT_EQ(back[899], 999);
  EXPECT_EQ(back[900], 0);
  EXPECT_EQ(spillwayNearFreeStorage(place, near_), spillwaySuccess);
  expect_near_error(spillwayNearFreeStorage(place, near_), spillwayErrorInvalidValue,
                    "freed before");
  EXPECT_EQ(spillwayNearFree(values, near_), spillwaySuccess);
  expect_near_error(spillwayNearFree(values, near_), spillwayErrorInvalidValue, "freed before");
}

TEST_F(CapiNear, ModesAreRefusalsWithACodeOfTheirOwn) {
  spillwayNearAdam_t step = adam(10);
  spillwayNearKernel_t kernel = 0;
  expect_near_error(spillwayNearAdamAsync(&kernel, &step, 0, near_), spillwayErrorMode,
                    "in normal mode");
  EXPECT_EQ(kernel, 0U);
  mode(0, spillwayNearModeAcceleration);
  spillwayNearMode_t now{};
  EXPECT_EQ(spillwayNearGetMode(&now, 0, near_), spillwaySuccess);
  EXPECT_EQ(now, spillwayNearModeAcceleration);
  float host = 0;
  expect_near_error(spillwayNearMemcpy(spillwayNearAtHost(&host),
                                       spillwayNearAtNear(step.parameter), sizeof(host), near_),
                    spillwayErrorMode, "in acceleration mode");
  step.gradient = floats(10, 1);
  expect_near_error(spillwayNearAdamAsync(&kernel, &step, 0, near_), spillwayErrorInvalidValue,
                    "in another channel");
}

// Many steps queue up faster than they run. On a machine that stands still before the call that is
// to be refused, it is not: then once more.
TEST_F(CapiNear, WhatRunsKeepsTheDeviceItsModeAndItsMemory) {
  constexpr std::size_t kCount = 60'000;
  spillwayNearAdam_t step{};
  const auto begin = [&] {
    step = adam(kCount);
    mode(0, spillwayNearModeAcceleration);
  };
  spillwayNearKernel_t last = 0;
  const auto until_busy = [&](auto call, auto mend) {
    for (int tries = 0; tries < 100; ++tries) {
      for (int i = 0; i < 300; ++i) {
        step.step += 1;
        EXPECT_EQ(spillwayNearAdamAsync(&last, &step, 0, near_), spillwaySuccess) << line();
      }
      const spillwayError_t error = call();
      if (error != spillwaySuccess || HasFailure()) {
        return error;
      }
      mend();
    }
    return spillwaySuccess;
  };
  begin();
  expect_near_error(
      until_busy([&] { return spillwayNearSetMode(0, spillwayNearModeNormal, near_); },
                 [&] { mode(0, spillwayNearModeAcceleration); }),
      spillwayErrorBusy, "wait for them");
  expect_near_error(until_busy([&] { return spillwayNearFree(step.expAvg, near_); },
                               [&] { step.expAvg = floats(kCount); }),
                    spillwayErrorBusy, "before freeing");
  expect_near_error(until_busy([&] { return spillwayNearClose(near_); },
                               [&] {
                                 CapiNear::SetUp();
                                 begin();
                               }),
                    spillwayErrorBusy, "spillwayNearSynchronize");
  EXPECT_EQ(spillwayNearWait(last, near_), spillwaySuccess);
  mode(0, spillwayNearModeNormal);
  EXPECT_EQ(spillwayNearFree(step.parameter, near_), spillwaySuccess);
}

TEST_F(CapiNear, NullAndNonsense) {
  float host = 0;
  const spillwayNearLocation_t here = spillwayNearAtHost(&host);
  expect_near_error(spillwayNearOptionsInit(nullptr, 8), spillwayErrorInvalidValue, "NULL");
  expect_near_error(spillwayNearOptionsInit(&options_, 8), spillwayErrorInvalidValue, "version");
  expect_near_error(spillwayNearOpen(nullptr, &options_), spillwayErrorInvalidValue,
                    "near is NULL");
  spillwayNear_t none = nullptr;
  spillwayNearOptions_t wrong = options_;
  wrong.channels = 65;
  expect_near_error(spillwayNearOpen(&none, &wrong), spillwayErrorInvalidValue, "65 channels");
  wrong = {};
  expect_near_error(spillwayNearOpen(&none, &wrong), spillwayErrorInvalidValue,
                    "spillwayNearOptionsInit");
  wrong = options_;
  wrong.channelBytes = std::uint64_t{1} << 49U;
  expect_near_error(spillwayNearOpen(&none, &wrong), spillwayErrorMemoryAllocation, "ask for less");
  EXPECT_EQ(none, nullptr);
  expect_near_error(spillwayNearSynchronize(nullptr), spillwayErrorInvalidValue, "near is NULL");
  expect_near_error(spillwayNearRegisterStorage(&storage_, nullptr, 0, near_),
                    spillwayErrorInvalidValue, "path is NULL");
  expect_near_error(spillwayNearRegisterStorage(&storage_, "/proc/none/here", 0, near_),
                    spillwayErrorInvalidValue, "/proc/none/here");
  expect_near_error(spillwayNearMalloc(nullptr, 1, 0, near_), spillwayErrorInvalidValue,
                    "ptr is NULL");
  void* start = &host;
  EXPECT_EQ(spillwayNearMalloc(&start, 0, 0, near_), spillwaySuccess);
  EXPECT_EQ(start, nullptr);
  expect_near_error(spillwayNearMalloc(&start, 2 << 20, 0, near_), spillwayErrorMemoryAllocation,
                    "1 MiB of 1 MiB are free");
  expect_near_error(spillwayNearMalloc(&start, 1, 2, near_), spillwayErrorInvalidValue,
                    "no channel");
  std::uint64_t place = 0;
  expect_near_error(spillwayNearMallocStorage(&place, 1, 5, near_), spillwayErrorInvalidValue,
                    "no storage");
  EXPECT_EQ(spillwayNearFree(nullptr, near_), spillwaySuccess);
  EXPECT_EQ(spillwayNearFreeStorage(0, near_), spillwaySuccess);
  EXPECT_EQ(spillwayNearFreeGpu(0, near_), spillwaySuccess);
  EXPECT_EQ(spillwayNearClose(nullptr), spillwaySuccess);
  spillwayNearLocation_t nowhere = here;
  const int no_side = 4;
  std::memcpy(&nowhere.side, &no_side, sizeof(no_side));
  expect_near_error(spillwayNearMemcpy(here, nowhere, 1, near_), spillwayErrorInvalidValue,
                    "src: 4 is no spillwayNearSide_t");
  expect_near_error(spillwayNearMemcpy(nowhere, here, 1, near_), spillwayErrorInvalidValue,
                    "dst: 4 is no spillwayNearSide_t");
  spillwayNearMode_t no_mode{};
  const int two = 2;
  std::memcpy(&no_mode, &two, sizeof(two));
  expect_near_error(spillwayNearSetMode(0, no_mode, near_), spillwayErrorInvalidValue,
                    "spillwayNearMode_t");
  expect_near_error(spillwayNearGetMode(nullptr, 0, near_), spillwayErrorInvalidValue,
                    "mode is NULL");
  spillwayNearKernel_t kernel = 0;
  expect_near_error(spillwayNearAdamAsync(&kernel, nullptr, 0, near_), spillwayErrorInvalidValue,
                    "adam is NULL");
  spillwayNearAdam_t step{};
  expect_near_error(spillwayNearAdamAsync(&kernel, &step, 0, near_), spillwayErrorInvalidValue,
                    "spillwayNearAdamInit");
  step = adam(10);
  step.step = 0;
  expect_near_error(spillwayNearAdamAsync(&kernel, &step, 0, near_), spillwayErrorInvalidValue,
                    "step 0");
  step.step = 1;
  std::memcpy(&step.gradientType, &two, sizeof(two));
  expect_near_error(spillwayNearAdamAsync(&kernel, &step, 0, near_), spillwayErrorInvalidValue,
                    "2 is no spillwayNearType_t");
  expect_near_error(spillwayNearWait(0, near_), spillwayErrorInvalidValue, "no kernel");
  int ended = 0;
  expect_near_error(spillwayNearPoll(&ended, 64, near_), spillwayErrorInvalidValue, "no kernel");
  expect_near_error(spillwayNearPoll(nullptr, 64, near_), spillwayErrorInvalidValue,
                    "ended is NULL");
  expect_near_error(spillwayNearGetStatistics(nullptr, 8, near_), spillwayErrorInvalidValue,
                    "statistics is NULL");
}

TEST_F(CapiNear, WithoutADriverThereIsNoGpu) {
  ::setenv("SPILLWAY_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  std::uint64_t address = 0;
  expect_near_error(spillwayNearMallocGpu(&address, 100, near_), spillwayErrorNotSupported,
                    "/nowhere/libcuda.so.1");
  const float host = 0;
  expect_near_error(
      spillwayNearMemcpy(spillwayNearAtGpu(4096), spillwayNearAtHost(&host), sizeof(host), near_),
      spillwayErrorNotSupported, "/nowhere/libcuda.so.1");
  EXPECT_EQ(address, 0U);
  ::unsetenv("SPILLWAY_CUDA_DRIVER");
}

TEST_F(CapiNear, ADeviceThatIsGone) {
  spillwayNear_t second = nullptr;
  ASSERT_EQ(spillwayNearOpen(&second, nullptr), spillwaySuccess) << line();
  float* const here = floats(10);
  expect_near_error(spillwayNearFree(here, second), spillwayErrorInvalidValue,
                    "not memory of this near device");
  ASSERT_EQ(spillwayNearClose(second), spillwaySuccess);
  expect_near_error(spillwayNearClose(second), spillwayErrorInvalidValue, "closed");
  expect_near_error(spillwayNearSynchronize(second), spillwayErrorInvalidValue, "closed");
}

}  // namespace
}  // namespace spillway::test
