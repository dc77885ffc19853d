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

// For good: the thread also frees what it was made with, after all that it runs.
void become_ours() {
  ++depth;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
}

void* run_body(void* body) {
  become_ours();
  reinterpret_cast<void (*)()>(body)();  // NOLINT(*-reinterpret-cast)
  return nullptr;
}

// What is made in its life takes no signals.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

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
  const WithoutSignals quiet;
  std::thread thread([body = std::move(body)] {
    become_ours();
    body();
  });
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

int start_service_thread(const char* name, void (*body)()) {
  const InService making;
  const WithoutSignals quiet;
  pthread_t thread{};
  const int error =
      ::pthread_create(&thread, nullptr, run_body, reinterpret_cast<void*>(body));  // NOLINT
  if (error == 0) {
    pthread_setname_np(thread, name);
    ::pthread_detach(thread);
  }
  return error;
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
