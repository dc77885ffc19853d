// See ending.h.
#include "front/preload/ending.h"

#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <ctime>
#include <thread>
#include <utility>

#include "front/preload/next.h"
#include "front/preload/session.h"
#include "platform/common/service_thread.h"

namespace spillway::preload {
namespace {

constexpr int kSecondsForTheRecord = 10;

// Never destroyed: it serves those that leave while all else has been taken down.
struct Ending {
  std::function<void()> give_to_children;
  std::function<void()> write_record;
  sem_t asked{};
  sem_t ended{};
  std::atomic<bool> children_have_all{false};
  std::atomic<bool> busy{false};
};
std::atomic<Ending*> prepared{nullptr};

void wait(sem_t& event) {
  while (::sem_wait(&event) != 0 && errno == EINTR) {
  }
}

bool wait_a_second(sem_t& event) {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  ++until.tv_sec;
  return ::sem_timedwait(&event, &until) == 0;
}

void work(Ending& ending) {
  while (true) {
    wait(ending.asked);
    ending.give_to_children();
    ending.children_have_all = true;
    ending.write_record();
    ::sem_post(&ending.ended);
  }
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(next_function(name));  // NOLINT: as dlsym has it
}

}  // namespace

void prepare_ending(std::function<void()> give_to_children, std::function<void()> write_record) {
  auto* const ending = new Ending;
  ending->give_to_children = std::move(give_to_children);
  ending->write_record = std::move(write_record);
  ::sem_init(&ending->asked, 0, 0);
  ::sem_init(&ending->ended, 0, 0);
  service_thread("spw-end", [ending] { work(*ending); }).detach();
  prepared = ending;
}

void before_end() {
  Ending* const ending = prepared.load();
  if (ending == nullptr || in_service() || session(false) == nullptr) {
    return;
  }
  while (ending->busy.exchange(true)) {
    ::sched_yield();  // another thread is leaving as well
  }
  ending->children_have_all = false;
  ::sem_post(&ending->asked);
  for (int seconds = 0; seconds < kSecondsForTheRecord && !wait_a_second(ending->ended);) {
    seconds += ending->children_have_all ? 1 : 0;
  }
  ending->busy = false;
}

}  // namespace spillway::preload

namespace pre = spillway::preload;

// The ways out of a process that run nothing of what the program or a library has put before them.
extern "C" {

void _exit(int status) {         // NOLINT(bugprone-reserved-identifier)
  if (spillway::in_service()) {  // which must not look anything up (descriptors.cc)
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
  }
  static const auto next = pre::next<void (*)(int)>("_exit");
  pre::before_end();
  next(status);
  __builtin_unreachable();
}

void _Exit(int status) noexcept { _exit(status); }  // NOLINT(bugprone-reserved-identifier)

void quick_exit(int status) noexcept {
  static const auto next = pre::next<void (*)(int)>("quick_exit");
  pre::before_end();
  next(status);
  __builtin_unreachable();
}

int execve(const char* path, char* const* words, char* const* environment) noexcept {
  static const auto next = pre::next<int (*)(const char*, char* const*, char* const*)>("execve");
  pre::before_end();
  return next(path, words, environment);
}

int fexecve(int fd, char* const* words, char* const* environment) noexcept {
  static const auto next = pre::next<int (*)(int, char* const*, char* const*)>("fexecve");
  pre::before_end();
  return next(fd, words, environment);
}

int execv(const char* path, char* const* words) noexcept {
  static const auto next = pre::next<int (*)(const char*, char* const*)>("execv");
  pre::before_end();
  return next(path, words);
}

int execvp(const char* file, char* const* words) noexcept {
  static const auto next = pre::next<int (*)(const char*, char* const*)>("execvp");
  pre::before_end();
  return next(file, words);
}

int execvpe(const char* file, char* const* words, char* const* environment) noexcept {
  static const auto next = pre::next<int (*)(const char*, char* const*, char* const*)>("execvpe");
  pre::before_end();
  return next(file, words, environment);
}
}

namespace spillway::preload {
namespace {

constexpr std::size_t kWordsMax = 4096;  // of a call that names each of them

// The words of an execl, which end with a null pointer. False if there are too many.
bool gather(char* first, va_list* more, char** words) {
  std::size_t count = 0;
  for (char* word = first; count < kWordsMax; word = va_arg(*more, char*)) {
    words[count++] = word;
    if (word == nullptr) {
      return true;
    }
  }
  errno = E2BIG;
  return false;
}

}  // namespace
}  // namespace spillway::preload

extern "C" {

int execl(const char* path, const char* word, ...) noexcept {
  char* words[pre::kWordsMax];  // NOLINT(*-avoid-c-arrays): also called where nothing may allocate
  va_list more;
  va_start(more, word);
  const bool all = pre::gather(const_cast<char*>(word), &more, words);  // NOLINT(*-const-cast)
  va_end(more);
  return all ? execv(path, words) : -1;
}

int execlp(const char* file, const char* word, ...) noexcept {
  char* words[pre::kWordsMax];  // NOLINT(*-avoid-c-arrays)
  va_list more;
  va_start(more, word);
  const bool all = pre::gather(const_cast<char*>(word), &more, words);  // NOLINT(*-const-cast)
  va_end(more);
  return all ? execvp(file, words) : -1;
}

int execle(const char* path, const char* word, ...) noexcept {
  char* words[pre::kWordsMax];  // NOLINT(*-avoid-c-arrays)
  va_list more;
  va_start(more, word);
  const bool all = pre::gather(const_cast<char*>(word), &more, words);  // NOLINT(*-const-cast)
  char* const* const environment = all ? va_arg(more, char* const*) : nullptr;
  va_end(more);
  return all ? execve(path, words, environment) : -1;
}
}
