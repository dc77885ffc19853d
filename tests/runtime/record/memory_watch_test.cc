// A line before memory is out, and one only.
#include "runtime/record/memory_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(MemoryWatch, SaysOnceWhenLittleIsLeft) {
  MemoryRoom room{.limit_bytes = 16 * kGiB,
                  .left_bytes = kGiB,
                  .is_group = true,
                  .whose = "control group /job"};
  std::vector<std::string> said;
  MemoryWatch watch([&] { return room; }, [&](std::string_view line) { said.emplace_back(line); });
  watch.look(7 * kGiB);
  EXPECT_THAT(said, IsEmpty());
  room.left_bytes = 511 * kMiB;
  watch.look(0);  // Spillway has no part in it
  EXPECT_THAT(said, IsEmpty());
  watch.look(7 * kGiB);
  watch.look(7 * kGiB);
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_THAT(said[0], AllOf(HasSubstr("511 MiB of the 16 GiB of control group /job are left"),
                             HasSubstr("7 GiB hold data"), HasSubstr("give the group more")));
}

}  // namespace
}  // namespace spillway
