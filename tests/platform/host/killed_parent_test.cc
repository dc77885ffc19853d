// A parent that is killed at the worst moment: its child is ended, and waits for nobody.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "platform/host/host_world.h"

namespace {

bool killed_by_sending = false;

}  // namespace

// In front of the C library's.
extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  const ssize_t sent = ::syscall(SYS_sendmsg, socket, message, flags);
  if (killed_by_sending && message->msg_controllen > 0) {
    ::kill(::getpid(), SIGKILL);
  }
  return sent;
}

namespace spillway::host {
namespace {

class KilledParentTest : public HostPlatformTest {
 protected:
  // The parent's process: makes a child, serves it, and is killed meanwhile.
  [[noreturn]] void be_parent(int says) {
    open(16 * kMiB, 128 * kMiB, 0);
    if (!platform_ || !userfault_support().fork_events) {
      ::_exit(0);
    }
    const auto words = allocate(48 * kMiB);
    fill(words, 1, 1);
    killed_by_sending = true;
    platform_->process().before_fork();
    if (::fork() == 0) {
      const pid_t own = ::getpid();
      [[maybe_unused]] const ssize_t said = ::write(says, &own, sizeof(own));
      platform_->process().in_child();
      ::_exit(static_cast<int>(mismatches(words, 1, 1)));
    }
    platform_->process().after_fork();
    ::close(says);
    while (true) {
      ::pause();
    }
  }
};

// What it is sent last keeps its own faults open, also before it has received it.
TEST_F(KilledParentTest, AChildThatIsBeingLinkedIsEnded) {
  constexpr int kPatienceMs = 20'000;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    be_parent(ends[1]);
  }
  ::close(ends[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  if (WIFEXITED(status)) {
    GTEST_SKIP() << "no fork events";
  }
  pid_t child = 0;
  ASSERT_EQ(::read(ends[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  pollfd end{.fd = ends[0], .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&end, 1, kPatienceMs), 1) << "the child waits for ever";
  ::kill(child, SIGKILL);
  ::close(ends[0]);
}

}  // namespace
}  // namespace spillway::host
