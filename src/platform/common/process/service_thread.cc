// See service_thread.h.
#include "platform/common/process/service_thread.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <utility>

namespace spillway {
namespace {

// Read inside malloc: it must not itself allocate when a thread first touches it.
__attribute__((tls_model("initial-exec"))) thread_local int service_depth = 0;

// Which threads are ours; 0: nobody's place. Without a lock, which a fork would leave held.
constexpr std::size_t kThreadsMax = 256;
std::array<std::atomic<pid_t>, kThreadsMax> our_threads{};

void replace(pid_t before, pid_t after) {
  for (std::atomic<pid_t>& place : our_threads) {
    pid_t there = before;
    if (place.compare_exchange_strong(there, after)) {
      return;
    }
  }
}

// The calling thread. It stays in service for good: it also frees what it was made with, after all
// that it runs.
class Ours {
 public:
  Ours() {
    ++service_depth;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
    replace(0, ::gettid());
  }
  Ours(const Ours&) = delete;
  Ours& operator=(const Ours&) = delete;
  ~Ours() { replace(::gettid(), 0); }
};

void* run_body(void* body) {
  const Ours ours;
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

bool in_service() { return service_depth > 0; }

InService::InService() {
  if (service_depth++ == 0) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  }
}

InService::~InService() {
  if (--service_depth == 0) {
    pthread_setcancelstate(cancel_state_, nullptr);
  }
}

std::thread service_thread(const char* name, std::function<void()> body) {
  const InService making;
  const WithoutSignals quiet;
  std::thread thread([body = std::move(body)] {
    const Ours ours;
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

bool is_service_thread(pid_t thread) {
  return std::any_of(our_threads.begin(), our_threads.end(),
                     [&](const std::atomic<pid_t>& place) { return place == thread; });
}

void forget_service_threads() {
  for (std::atomic<pid_t>& place : our_threads) {
    place = 0;
  }
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
