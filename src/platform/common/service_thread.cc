// See service_thread.h.
#include "platform/common/service_thread.h"

#include <pthread.h>

#include <csignal>
#include <ctime>
#include <utility>

namespace spillway {
namespace {

// Read inside malloc: it must not itself allocate when a thread first touches it.
__attribute__((tls_model("initial-exec"))) thread_local int depth = 0;

}  // namespace

bool in_service() { return depth > 0; }

InService::InService() {
  if (depth++ == 0) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  }
}

InService::~InService() {
  if (--depth == 0) {
    pthread_setcancelstate(cancel_state_, nullptr);
  }
}

std::thread service_thread(const char* name, std::function<void()> body) {
  const InService making;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // For good: the thread also frees what it was made with, after all that stands here.
  std::thread thread([body = std::move(body)] {
    ++depth;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    body();
  });
  pthread_setname_np(thread.native_handle(), name);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

TimeNs processor_ns(const std::thread& thread) {
  // native_handle is not const, though it changes nothing.
  const pthread_t handle =
      const_cast<std::thread&>(thread).native_handle();  // NOLINT(*-const-cast)
  clockid_t clock{};
  timespec time{};
  if (!thread.joinable() || ::pthread_getcpuclockid(handle, &clock) != 0 ||
      ::clock_gettime(clock, &time) != 0) {
    return 0;
  }
  return time.tv_sec * TimeNs{1'000'000'000} + time.tv_nsec;
}

}  // namespace spillway
