// Opening the driver library, and what is said when it cannot be.
#include "platform/cuda/driver/driver.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

namespace spillway::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

void* all_but_one(void* library, const char* symbol) {
  return std::string_view(symbol) == "cuFuncGetParamInfo" ? nullptr : ::dlsym(library, symbol);
}

TEST(OpenDriver, FindsEveryCall) {
  const Result<Driver> driver = open_driver(FAKE_CUDA_LIBRARY);
  ASSERT_TRUE(driver) << driver.error().message;
#define SPILLWAY_FOUND(field, symbol, since, parameters) EXPECT_NE(driver->field, nullptr);
  SPILLWAY_CUDA_CALLS(SPILLWAY_FOUND)
#undef SPILLWAY_FOUND
  int version = 0;
  EXPECT_EQ(driver->driver_version(&version), CuResult::kSuccess);
  EXPECT_GE(version, 12000);
}

TEST(OpenDriver, LooksWhereTheVariableSays) {
  ::setenv(kDriverVariable, FAKE_CUDA_LIBRARY, 1);
  EXPECT_TRUE(open_driver());
  ::setenv(kDriverVariable, "/nowhere/libcuda.so.1", 1);
  EXPECT_FALSE(open_driver());
  EXPECT_TRUE(open_driver(FAKE_CUDA_LIBRARY)) << "what is given counts before the variable";
  ::unsetenv(kDriverVariable);
}

TEST(OpenDriver, SaysWhatIsMissing) {
  const Result<Driver> none = open_driver("/nowhere/libcuda.so.1");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(none.error().message, AllOf(HasSubstr("/nowhere/libcuda.so.1"), HasSubstr("install"),
                                          Not(HasSubstr("\n"))));

  const Result<Driver> old = open_driver(FAKE_CUDA_LIBRARY, all_but_one);
  ASSERT_FALSE(old);
  EXPECT_THAT(old.error().message,
              AllOf(HasSubstr("has no cuFuncGetParamInfo (CUDA 12.4), it is for CUDA 13.0"),
                    HasSubstr("CUDA 12.4 or later"), Not(HasSubstr("\n"))));
}

TEST(ErrorText, NamesCallErrorAndWhatToDo) {
  const Result<Driver> driver = open_driver(FAKE_CUDA_LIBRARY);
  ASSERT_TRUE(driver);
  EXPECT_THAT(error_text(*driver, "cuMemCreate", CuResult::kOutOfMemory),
              AllOf(StartsWith("cuMemCreate: "), HasSubstr("(CUDA_ERROR_OUT_OF_MEMORY, 2): "),
                    HasSubstr("lower the budget"), Not(HasSubstr("\n"))));
  EXPECT_THAT(error_text(*driver, "cuMemCreate", static_cast<CuResult>(4711)),
              HasSubstr("cannot name, 4711"));
  EXPECT_TRUE(check(*driver, "cuInit", CuResult::kSuccess));
  const Status failed = check(*driver, "cuInit", CuResult::kNoDevice);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("CUDA_VISIBLE_DEVICES"));
}

TEST(ProcAddress, GivesTheSymbolOfTheVersion) {
  const Result<Driver> driver = open_driver(FAKE_CUDA_LIBRARY);
  ASSERT_TRUE(driver);
  void* function = nullptr;
  CuSymbolStatus status{};
  EXPECT_EQ(driver->proc_address("cuStreamWaitValue64", &function, 13000, 0, &status),
            CuResult::kSuccess);
  EXPECT_EQ(function, reinterpret_cast<void*>(driver->stream_wait_value));
  driver->proc_address("cuStreamWaitValue64", &function, 11000, 0, &status);
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(status, CuSymbolStatus::kVersionTooOld);
  driver->proc_address("cuNothing", &function, 13000, 0, &status);
  EXPECT_EQ(status, CuSymbolStatus::kNotFound);
}

}  // namespace
}  // namespace spillway::cuda
