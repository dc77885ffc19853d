// See ending.h.
#include "interpose/host/process/ending.h"

#include <linux/futex.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>
#include <thread>
#include <utility>

#include "interpose/host/process/bare_call.h"
#include "interpose/host/session.h"
#include "platform/common/process/service_thread.h"

namespace spillway::preload {
namespace {

constexpr int kSecondsForTheRecord = 10;

// How often something has been asked for, or done. No lock: who waits may itself be stopped by a
// signal whose handler wants to leave as well. Nor do the kernel's waits end a thread that is
// cancelled, or that a signal interrupts.
using Rounds = std::atomic<std::uint32_t>;

std::uint32_t* word_of(Rounds& rounds) {
  static_assert(sizeof(Rounds) == sizeof(std::uint32_t));
  return reinterpret_cast<std::uint32_t*>(&rounds);  // NOLINT(*-reinterpret-cast): the kernel's
}

bool reached(std::uint32_t rounds, std::uint32_t wanted) {
  return static_cast<std::int32_t>(rounds - wanted) >= 0;
}

// `until`: on the monotonic clock; nullptr: however long it takes.
void wait_for(Rounds& rounds, std::uint32_t wanted, const timespec* until) {
  for (std::uint32_t now = rounds; !reached(now, wanted); now = rounds) {
    const long woken = bare_call(SYS_futex, word_of(rounds), FUTEX_WAIT_BITSET_PRIVATE, now, until,
                                 nullptr, FUTEX_BITSET_MATCH_ANY);
    if (woken != 0 && errno == ETIMEDOUT) {
      return;
    }
  }
}

void set(Rounds& rounds, std::uint32_t round) {
  rounds = round;
  bare_call(SYS_futex, word_of(rounds), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// Never destroyed: it serves those that leave while all else has been taken down.
struct Ending {
  std::function<void()> give_to_children;
  std::function<void()> write_record;
  sem_t asked{};
  Rounds rounds_asked{0};
  Rounds rounds_given{0};  // in which children have got all
  Rounds rounds_done{0};
};
std::atomic<Ending*> prepared{nullptr};

void work(Ending& ending) {
  while (true) {
    while (::sem_wait(&ending.asked) != 0 && errno == EINTR) {
    }
    const std::uint32_t round = ending.rounds_asked;
    if (reached(ending.rounds_done, round)) {
      continue;  // who has asked meanwhile has been served as well
    }
    ending.give_to_children();
    set(ending.rounds_given, round);
    ending.write_record();
    set(ending.rounds_done, round);
  }
}

}  // namespace

void prepare_ending(std::function<void()> give_to_children, std::function<void()> write_record) {
  auto* const ending = new Ending;
  ending->give_to_children = std::move(give_to_children);
  ending->write_record = std::move(write_record);
  ::sem_init(&ending->asked, 0, 0);
  service_thread("spw-end", [ending] { work(*ending); }).detach();
  prepared = ending;
}

void before_end() {
  Ending* const ending = prepared.load();
  if (ending == nullptr || in_service() || session(false) == nullptr) {
    return;
  }
  const std::uint32_t round = ++ending->rounds_asked;
  ::sem_post(&ending->asked);
  wait_for(ending->rounds_given, round, nullptr);
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += kSecondsForTheRecord;
  wait_for(ending->rounds_done, round, &until);
}

}  // namespace spillway::preload
