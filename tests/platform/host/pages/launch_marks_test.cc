// What the program says of its launches without waiting: nothing is lost, and in the order in which
// it was said.
#include "platform/host/pages/launch_marks.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "platform/common/process/current_module.h"

namespace spillway::host {
namespace {

TEST(LaunchMarks, ComeInTheOrderInWhichTheyWereSaid) {
  LaunchMarks marks;
  EXPECT_EQ(marks.add_launch(hash_launch("matmul", {}), "matmul", true, 30), 1U);
  marks.add_access(5, 2, true);
  marks.add_access(9, 1, false);
  EXPECT_EQ(marks.add_launch(hash_launch("add", {}), "add", false, 40), 4U);
  std::vector<LaunchMark> taken(7);  // of some time before
  marks.take(taken);
  ASSERT_EQ(taken.size(), 4U);
  EXPECT_EQ(taken[0].name, "matmul");
  EXPECT_EQ(taken[0].hash, hash_launch("matmul", {}));
  EXPECT_TRUE(taken[0].tells_all);
  EXPECT_EQ(taken[0].block_count, 0U);
  EXPECT_EQ(taken[0].stalled_ns, 30);
  EXPECT_EQ(taken[1].first_block, 5U);
  EXPECT_EQ(taken[1].block_count, 2U);
  EXPECT_TRUE(taken[1].writes);
  EXPECT_FALSE(taken[2].writes);
  EXPECT_FALSE(taken[3].tells_all);
  EXPECT_LE(taken[0].at_ns, taken[3].at_ns);
  marks.take(taken);
  EXPECT_TRUE(taken.empty());
  EXPECT_EQ(marks.add_launch({}, "matmul", true, 0), 1U);
}

// Who takes them is another thread.
TEST(LaunchMarks, SayTheModuleOfTheThreadThatMarks) {
  LaunchMarks marks;
  set_current_module("h.0.mlp");
  marks.add_launch({}, "matmul", true, 0);
  set_current_module({});
  marks.add_launch({}, "matmul", true, 0);
  std::vector<LaunchMark> taken;
  marks.take(taken);
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0].module, "h.0.mlp");
  EXPECT_EQ(taken[1].module, "");
}

// The program's own string may be gone when somebody looks.
TEST(LaunchMarks, NamesStay) {
  LaunchMarks marks;
  std::vector<LaunchMark> first;
  {
    std::string name(100, 'a');
    marks.add_launch({}, name, true, 0);
    name.assign(100, 'b');
    marks.take(first);
  }
  std::vector<LaunchMark> second;
  for (int i = 0; i < 1000; ++i) marks.add_launch({}, std::to_string(i), true, 0);
  marks.add_launch({}, std::string(100, 'a'), true, 0);
  marks.take(second);
  EXPECT_EQ(first[0].name, std::string(100, 'a'));
  EXPECT_EQ(second[999].name, "999");
  EXPECT_EQ(second[1000].name.data(), first[0].name.data());  // it is kept once
}

// Each thread's marks keep their order, and none is lost or comes twice.
TEST(LaunchMarks, ManyThreadsMarkWhileOneTakes) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kEach = 5000;
  LaunchMarks marks;
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint32_t i = 1; i <= kEach; ++i) {
        if (i % 2 == 0) {
          marks.add_access(t, i, false);
        } else {
          marks.add_launch({}, std::to_string(t), false, i);
        }
      }
    });
  }
  std::vector<std::uint32_t> last(kThreads, 0);
  std::vector<LaunchMark> taken;
  for (std::uint32_t seen = 0; seen < kThreads * kEach;) {
    marks.take(taken);
    for (const LaunchMark& mark : taken) {
      const bool launch = mark.block_count == 0;
      const std::uint32_t thread = launch ? static_cast<std::uint32_t>(mark.name[0] - '0')
                                          : static_cast<std::uint32_t>(mark.first_block);
      const auto number = launch ? static_cast<std::uint32_t>(mark.stalled_ns) : mark.block_count;
      ASSERT_EQ(number, last[thread] + 1);
      last[thread] = number;
      ++seen;
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace spillway::host
