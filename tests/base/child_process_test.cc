// Starting programs: what they find, how they end, what is said of those that are not there.
#include "base/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using File = std::unique_ptr<std::FILE, decltype([](std::FILE* file) { std::fclose(file); })>;

ChildEnd ended(const ChildProgram& program) {
  const Result<pid_t> child = start_child(program);
  EXPECT_TRUE(child.has_value());
  const Result<ChildEnd> end = child ? wait_for_child(*child) : ChildEnd{.status = -1};
  EXPECT_TRUE(end.has_value());
  return end.value_or(ChildEnd{.status = -1});
}

// What a shell's command line prints.
std::string printed(const std::string& line, ChildProgram program = {}) {
  const File out(std::tmpfile());
  program.words = {"sh", "-c", line};
  program.out = fileno(out.get());
  EXPECT_EQ(ended(program).status, 0);
  std::rewind(out.get());
  std::array<char, 256> text{};
  return {text.data(), std::fread(text.data(), 1, text.size(), out.get())};
}

TEST(ChildProcess, TellsStatusAndSignalAsAShellDoes) {
  EXPECT_EQ(ended({.words = {"true"}}).status, 0);
  EXPECT_EQ(ended({.words = {"sh", "-c", "exit 7"}}).status, 7);
  const ChildEnd killed = ended({.words = {"sh", "-c", "kill -9 $$"}});
  EXPECT_EQ(killed.status, 137);
  EXPECT_EQ(killed.signal, SIGKILL);
}

TEST(ChildProcess, WordsArriveAsTheyAre) {
  const File out(std::tmpfile());
  EXPECT_EQ(
      ended({.words = {"printf", "%s|", "a b", "$HOME", "", "'"}, .out = fileno(out.get())}).status,
      0);
  std::rewind(out.get());
  std::array<char, 64> text{};
  EXPECT_EQ(std::string(text.data(), std::fread(text.data(), 1, text.size(), out.get())),
            "a b|$HOME||'|");
}

TEST(ChildProcess, ItsEnvironmentIsOursWithChanges) {
  ::setenv("SPILLWAY_TEST_KEPT", "kept", 1);
  ::setenv("SPILLWAY_TEST_CHANGED", "before", 1);
  EXPECT_EQ(printed("echo $SPILLWAY_TEST_KEPT $SPILLWAY_TEST_CHANGED $SPILLWAY_TEST_NEW",
                    {.environment = {{"SPILLWAY_TEST_CHANGED", "after"},
                                     {"SPILLWAY_TEST_NEW", "new=value"}}}),
            "kept after new=value\n");
  EXPECT_STREQ(std::getenv("SPILLWAY_TEST_CHANGED"), "before");
  EXPECT_EQ(std::getenv("SPILLWAY_TEST_NEW"), nullptr);
}

TEST(ChildProcess, MayBeLookedAfterWhileItRuns) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const Result<pid_t> child = start_child({.words = {"cat"}, .in = ends[0]});
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(look_after_child(*child).value(), std::nullopt);
  ::close(ends[1]);  // now cat ends
  ::close(ends[0]);
  EXPECT_EQ(wait_for_child(*child)->status, 0);
}

TEST(ChildProcess, AChildThatIsNotOursIsLost) {
  const Result<ChildEnd> lost = wait_for_child(::getppid());
  ASSERT_FALSE(lost.has_value());
  EXPECT_EQ(lost.error().code, ErrorCode::kIo);
}

TEST(ChildProcess, TakesInterruptsWhereThisProcessIgnoresThem) {
  auto* const before = ::signal(SIGINT, SIG_IGN);
  EXPECT_EQ(ended({.words = {"sh", "-c", "kill -2 $$; sleep 5"}}).signal, SIGINT);
  ::signal(SIGINT, before);
}

TEST(ChildProcess, AGroupIsKilledWhole) {
  const Result<pid_t> child =
      start_child({.words = {"sh", "-c", "sleep 60 & wait"}, .leads_group = true});
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(::getpgid(*child), *child);
  EXPECT_EQ(::kill(-*child, SIGKILL), 0);
  EXPECT_EQ(wait_for_child(*child)->signal, SIGKILL);
}

TEST(ChildProcess, EndsWithWhoStartedIt) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const Result<pid_t> child =
        start_child({.words = {"sh", "-c", "echo; exec sleep 600"}, .out = ends[1]});
    ::close(ends[1]);
    ::close(ends[0]);
    ::pause();
    ::_exit(child.has_value() ? 0 : 1);
  }
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  EXPECT_EQ(::kill(parent, SIGKILL), 0);
  EXPECT_EQ(wait_for_child(parent)->signal, SIGKILL);
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);  // it has no other end any more
  ::close(ends[0]);
}

void handle(int /*signal*/) {}

TEST(ChildProcess, HandlersOfOursAreNotItsOwn) {
  auto* const before = ::signal(SIGTERM, handle);
  EXPECT_EQ(ended({.words = {"sh", "-c", "kill -15 $$; sleep 5"}}).signal, SIGTERM);
  ::signal(SIGTERM, SIG_IGN);
  EXPECT_EQ(ended({.words = {"sh", "-c", "kill -15 $$; exit 3"}}).status, 3);
  ::signal(SIGTERM, before);
}

TEST(ChildProcess, ARunsStreamsMayBeMissing) {
  const int kept = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  const int next = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, kept + 1);
  ::close(next);  // who runs this test may have left us others, but not these
  ::close(STDIN_FILENO);
  const std::string script =
      fmt::format("cd /proc/self/fd && test ! -e {} && test ! -e {} && exit 4", kept, next);
  EXPECT_EQ(ended({.words = {"sh", "-c", script}}).status, 4);
  ::dup2(kept, STDIN_FILENO);
  ::close(kept);
}

TEST(ChildProcess, SaysWhatCannotBeRun) {
  const Result<pid_t> missing = start_child({.words = {"no-such-program"}});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(missing.error().message,
              AllOf(HasSubstr("cannot run 'no-such-program': No such file"), Not(HasSubstr("\n"))));
  const Result<pid_t> refused = start_child({.words = {"/etc/passwd"}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace spillway
