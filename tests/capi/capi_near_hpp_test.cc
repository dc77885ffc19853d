// The C++ header over the near device's C API. Includes nothing else of Spillway, as a program
// would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <spillway/near.hpp>
#include <utility>
#include <vector>

namespace {

using ::testing::HasSubstr;

spillway::NearOptions small_near() {
  spillway::NearOptions options;
  options.channelBytes = 1 << 20;
  return options;
}

TEST(CapiNearHpp, GivesBackWhatItOwns) {
  const spillway::NearDevice near{small_near()};
  const auto free_bytes = [&] { return near.statistics(0).freeBytes; };
  {
    spillway::NearBuffer<float> a(near, 1000, 0);
    spillway::NearBuffer<float> b = std::move(a);
    EXPECT_EQ(a.data(), nullptr);  // NOLINT(bugprone-use-after-move): what this is about
    EXPECT_EQ(free_bytes(), (1U << 20U) - 4096);
    b = spillway::NearBuffer<float>(near, 2000, 0);
    EXPECT_EQ(free_bytes(), (1U << 20U) - 8192);
    EXPECT_EQ(spillway::NearBuffer<int>(near, 0, 0).size(), 0U);
  }
  EXPECT_EQ(free_bytes(), 1U << 20U);
}

TEST(CapiNearHpp, StepsCopiesAndPlaces) {
  const spillway::NearDevice near{small_near()};
  const std::uint32_t storage = near.register_storage(SPILLWAY_SOURCE_DIR, 4 << 20);
  spillway::NearBuffer<float> parameter(near, 100, 1);
  spillway::NearBuffer<float> gradient(near, 100, 1);
  spillway::NearBuffer<float> first(near, 100, 1);
  spillway::NearBuffer<float> second(near, 100, 1);
  std::vector<float> values(100);
  std::iota(values.begin(), values.end(), 1.0F);
  gradient.copy_from(values);
  spillway::NearAdam adam;
  adam.parameter = parameter.data();
  adam.gradient = gradient.data();
  adam.expAvg = first.data();
  adam.expAvgSq = second.data();
  adam.count = parameter.size();
  near.set_mode(1, spillwayNearModeAcceleration);
  EXPECT_EQ(near.mode(1), spillwayNearModeAcceleration);
  const spillway::NearKernel kernel = near.launch(adam, 1);
  kernel.wait();
  EXPECT_TRUE(kernel.ended());
  near.set_mode(1, spillwayNearModeNormal);
  const spillway::NearPlace place(near, parameter.size_bytes(), storage);
  near.copy(place.location(), parameter.location(), parameter.size_bytes());
  near.copy(spillwayNearAtHost(values.data()), place.location(), parameter.size_bytes());
  for (const float value : values) EXPECT_NEAR(value, -1e-3, 1e-6);
  EXPECT_EQ(near.statistics().copies, 3U);
}

TEST(CapiNearHpp, ErrorsAreExceptionsAndItsEndWaitsForKernels) {
  spillway::NearDevice near{small_near()};
  spillway::NearAdam adam;
  try {
    near.launch(adam, 0).wait();
    FAIL() << "it has no operands";
  } catch (const spillway::Error& error) {
    EXPECT_EQ(error.code(), spillwayErrorInvalidValue);
    EXPECT_THAT(error.what(), HasSubstr("elements"));
  }
  adam.count = 60'000;
  void* start = nullptr;
  for (void** const operand : {&adam.parameter, &adam.expAvg, &adam.expAvgSq, &start}) {
    ASSERT_EQ(spillwayNearMalloc(operand, adam.count * sizeof(float), 0, near.handle()),
              spillwaySuccess);
  }
  adam.gradient = start;
  near.set_mode(0, spillwayNearModeAcceleration);
  for (int i = 0; i < 20; ++i) (void)near.launch(adam, 0);
  EXPECT_THROW(near.set_mode(7, spillwayNearModeNormal), spillway::Error);
}

}  // namespace
