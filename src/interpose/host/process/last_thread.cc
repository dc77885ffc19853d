// See last_thread.h.
#include "interpose/host/process/last_thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "platform/common/process/descriptor.h"
#include "platform/common/process/say.h"
#include "platform/common/process/service_thread.h"

namespace spillway::preload {
namespace {

pthread_key_t key{};
bool key_is_made = false;

// Of the kernel's line about a thread: "12 (its name) S ...", and six numbers further its flags.
// Not the program's are those that are gone, and the kernel's own, which carry out io_uring's
// requests.
bool is_the_programs(const std::string& line) {
  constexpr unsigned kIoWorker = 0x10;  // PF_IO_WORKER
  const auto name_end = line.rfind(')');
  char state = 'X';
  unsigned flags = 0;
  if (name_end == std::string::npos ||
      // NOLINTNEXTLINE(cert-err34-c): the kernel's numbers
      std::sscanf(line.c_str() + name_end + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2) {
    return false;
  }
  return state != 'Z' && state != 'X' && (flags & kIoWorker) == 0;
}

// nullopt: it cannot be told for the moment.
std::optional<bool> another_is_left() {
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(::opendir("/proc/self/task"), ::closedir);
  if (!threads) {
    return std::nullopt;
  }
  while (const dirent* const entry = ::readdir(threads.get())) {
    const pid_t thread = std::atoi(entry->d_name);  // NOLINT(cert-err34-c): 0 for "." and ".."
    if (thread == 0 || thread == ::gettid() || is_service_thread(thread)) {
      continue;
    }
    const Descriptor file(
        ::open(fmt::format("/proc/self/task/{}/stat", thread).c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0 && errno != ENOENT && errno != ESRCH) {
      return std::nullopt;
    }
    std::array<char, 192> line{};
    const ssize_t bytes = file.get() < 0 ? 0 : ::read(file.get(), line.data(), line.size());
    if (bytes > 0 && is_the_programs({line.data(), static_cast<std::size_t>(bytes)})) {
      return true;
    }
  }
  return false;
}

// Twice in a row, as threads come and go while they are listed. It ends the process as the C
// library does it for the last thread.
void* outlive_the_others(void* /*unused*/) {
  constexpr std::chrono::milliseconds kLookAgain{20};
  constexpr int kBlindMax = 3000;  // a minute
  int blind = 0;
  for (int nobody = 0; nobody < 2;) {
    if (nobody == 0) {
      std::this_thread::sleep_for(kLookAgain);
    }
    const std::optional<bool> left = another_is_left();
    blind = left ? 0 : blind + 1;
    nobody = left == false ? nobody + 1 : 0;
    if (blind > kBlindMax) {
      end_run(
          fmt::format("the main thread has left, and which other threads are left cannot be "
                      "told: /proc/self/task: {}; ending the program",
                      std::strerror(errno)));
    }
  }
  std::exit(EXIT_SUCCESS);
}

// With the program's descriptors, which exit handlers want: so not one of ours (service_thread.h).
void main_thread_leaves(void* /*unused*/) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  if (::pthread_create(&thread, nullptr, outlive_the_others, nullptr) == 0) {
    ::pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

// What a thread keeps for itself is destroyed when it leaves, however it does; nothing is when the
// process ends.
void watch_main_thread() {
  key_is_made = ::pthread_key_create(&key, main_thread_leaves) == 0;
  watch_main_thread_of_child();
}

void watch_main_thread_of_child() {
  if (key_is_made) {
    ::pthread_setspecific(key, &key);
  }
}

}  // namespace spillway::preload
