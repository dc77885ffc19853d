// Part of every test program: tests that begin when there is no time left are skipped.
//
// tools/test.sh says in TEST_DEADLINE, in seconds since 1970, until when tests may begin
// (TEST_MINUTES); without it they always may.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

namespace {

class NoTimeLeft : public testing::Environment {
 public:
  void SetUp() override {
    const char* deadline = std::getenv("TEST_DEADLINE");
    if (deadline == nullptr || *deadline == '\0') return;
    const bool past = std::time(nullptr) >= std::stoll(deadline);
    // A program of ours that a test starts, itself among them (death tests), goes on.
    unsetenv("TEST_DEADLINE");
    if (!past) return;
    // CTest knows skipped tests by the first words. If this function used GTEST_SKIP, the program
    // would call its tests passed.
    std::puts("[  SKIPPED ] no time left");
    std::exit(0);
  }
};

[[maybe_unused]] testing::Environment* const no_time_left =
    testing::AddGlobalTestEnvironment(new NoTimeLeft);

}  // namespace
