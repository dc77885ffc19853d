// What ends a run is told once, in the words of the cause that was met last.
#include "platform/common/failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "platform/common/process/say.h"

namespace spillway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Failures, OnlyTheFirstEndIsTold) {
  std::vector<std::string> told;
  Failures failures([&](const Error& error) { told.push_back(error.message); });
  failures.must(0, "fill");
  EXPECT_TRUE(told.empty());
  failures.must(ENOMEM, "fill");
  failures.must(EFAULT, "protect");
  failures.fatal({ErrorCode::kIo, "something else"});
  EXPECT_THAT(told, ElementsAre("the kernel refuses to fill memory: Cannot allocate memory; "
                                "stopping before data is lost"));
}

TEST(Failures, TheLastCauseExplainsWhatTheEngineGivesUpWith) {
  Failures failures([](const Error&) {});
  const Error given_up{ErrorCode::kIo, "a transfer has failed too often"};
  EXPECT_EQ(failures.with_cause(given_up).message, given_up.message);
  failures.note_cause("/swap: cannot read");
  failures.note_cause("/swap: cannot write");
  EXPECT_EQ(failures.with_cause(given_up).message,
            "/swap: cannot write; stopping before data is lost");
  EXPECT_EQ(failures.with_cause(given_up).code, ErrorCode::kIo);
}

TEST(Failures, TellsOnceHoweverManyThreadsFail) {
  std::atomic<int> told{0};
  Failures failures([&](const Error&) { ++told; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        failures.note_cause(std::string(100, 'a'));
        EXPECT_THAT(failures.with_cause({ErrorCode::kIo, ""}).message, HasSubstr("a; stopping"));
        failures.fatal({ErrorCode::kIo, "end"});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(told, 1);
}

TEST(FailuresDeathTest, WithoutAnybodyToTellTheProcessEndsWithOneLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(Failures(nullptr).fatal({ErrorCode::kIo, "no way on"}),
              testing::ExitedWithCode(kOwnFailureStatus), "^spillway: no way on\n$");
}

}  // namespace
}  // namespace spillway
