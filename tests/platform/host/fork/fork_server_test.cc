// Children of a program on the host platform: what they see, and what is kept for them.
#include "platform/host/fork/fork_server.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "platform/host/host_world.h"

namespace spillway::host {
namespace {

// A child sees the memory of the moment at which it was made, wherever the parent kept it, and what
// either writes afterwards is its own.
class ForkTest : public HostPlatformTest {
 protected:
  // Whether `body` returns true in a child.
  bool in_child(const std::function<bool()>& body) {
    platform_->process().before_fork();
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(body() ? 0 : 1);
    }
    platform_->process().after_fork();
    children_.push_back(child);
    return child > 0;
  }
  // Whether all children said true.
  bool children_agree() {
    bool all = true;
    for (const pid_t child : children_) {
      int status = 0;
      ::waitpid(child, &status, 0);
      all = all && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    children_.clear();
    return all;
  }
  std::vector<pid_t> children_;
};

TEST_F(ForkTest, ChildrenSeeTheMomentOfTheFork) {
  for (const Bytes storage : {Bytes{0}, 128 * kMiB}) {
    open(16 * kMiB, storage > 0 ? 16 * kMiB : 128 * kMiB, storage);
    if (!platform_) return;
    if (!userfault_support().fork_events) GTEST_SKIP() << "no fork events";
    const auto words = allocate(48 * kMiB);
    fill(words, 1, 1);
    const auto fresh = allocate(4 * kMiB);
    for (std::uint64_t version = 1; version < 5; ++version) {
      ASSERT_TRUE(in_child([&] {
        ::usleep(20'000);  // while the parent goes on
        if (mismatches(words, 1, version) > 0 || fresh[1000] != 0) return false;
        fill(words, 7, 7);
        return mismatches(words, 7, 7) == 0;
      }));
      fill(words, 1, version + 1);
      ASSERT_EQ(mismatches(words, 1, version + 1), 0U);
    }
    EXPECT_TRUE(children_agree());
    EXPECT_EQ(mismatches(words, 1, 5), 0U);
    EXPECT_TRUE(platform_->check_invariants());
    platform_.reset();
  }
}

// What they may still read comes on top of the budget, as their own pages would.
TEST_F(ForkTest, ChildrenThatLiveOnDoNotUseUpTheBudget) {
  open(16 * kMiB, 48 * kMiB, 0);
  if (!platform_) return;
  if (!userfault_support().fork_events) GTEST_SKIP() << "no fork events";
  const auto words = allocate(44 * kMiB);
  fill(words, 1, 1);
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  constexpr std::uint64_t kChildren = 6;
  for (std::uint64_t version = 1; version <= kChildren; ++version) {
    ASSERT_TRUE(in_child([&] {
      char end = 0;
      ::close(pipe[1]);
      return ::read(pipe[0], &end, 1) == 0 && mismatches(words, 1, version) == 0;
    }));
    fill(words, 1, version + 1);
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
  EXPECT_TRUE(children_agree());
  EXPECT_EQ(mismatches(words, 1, kChildren + 1), 0U);
  EXPECT_EQ(platform_->stats().engine.failed_transfers, 0U);
  EXPECT_TRUE(platform_->check_invariants());
}

// It could only see zeros.
TEST_F(ForkTest, AProcessThatNoForkMadeIsEndedBeforeItSeesWrongBytes) {
  open(16 * kMiB, 64 * kMiB, 0);
  if (!platform_) return;
  if (!userfault_support().fork_events) GTEST_SKIP() << "no fork events";
  const auto words = allocate(32 * kMiB);
  fill(words, 1, 1);
  const auto child = static_cast<pid_t>(::syscall(SYS_fork));
  if (child == 0) {
    std::signal(SIGBUS, SIG_DFL);  // a sanitizer's handler would end it with a status
    ::_exit(mismatches(words, 1, 1) == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(mismatches(words, 1, 1), 0U);
}

// A pool's worker that has threads and makes processes of its own: what its threads stop at is
// served, whatever the kernel tells in between, and its children see what it saw.
TEST_F(ForkTest, ChildrenOfChildrenSeeTheMomentOfTheForkToo) {
  open(16 * kMiB, 128 * kMiB, 0);
  if (!platform_) return;
  if (!userfault_support().fork_events) GTEST_SKIP() << "no fork events";
  const auto words = allocate(64 * kMiB);
  fill(words, 1, 1);
  ASSERT_TRUE(in_child([&] {
    std::array<std::size_t, 3> wrong{};
    std::vector<std::thread> readers;
    for (std::size_t& sum : wrong) {
      readers.emplace_back([&] { sum = mismatches(words, 1, 1); });
    }
    bool right = true;
    for (int i = 0; i < 4; ++i) {
      const pid_t grandchild = ::fork();
      if (grandchild == 0) {
        ::_exit(mismatches(words, 1, 1) == 0 ? 0 : 1);
      }
      int status = 0;
      ::waitpid(grandchild, &status, 0);
      right = right && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    for (std::thread& reader : readers) {
      reader.join();
    }
    return right && wrong[0] + wrong[1] + wrong[2] == 0;
  }));
  fill(words, 1, 2);
  EXPECT_TRUE(children_agree());
  EXPECT_EQ(mismatches(words, 1, 2), 0U);
  EXPECT_TRUE(platform_->check_invariants());
}

}  // namespace
}  // namespace spillway::host
