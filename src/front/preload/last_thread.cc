// See last_thread.h.
#include "front/preload/last_thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace spillway::preload {
namespace {

pthread_key_t key{};
bool key_is_made = false;

// Of the kernel's line about a thread: "12 (its name) S ...". Threads of ours have a name that says
// so (service_thread.h), and so have the kernel's own, which carry out io_uring's requests.
bool is_the_programs(std::string_view line) {
  const auto name = line.find('(');
  const auto state = line.rfind(')');
  if (name == std::string_view::npos || state == std::string_view::npos ||
      state + 2 >= line.size()) {
    return false;
  }
  const bool gone = line[state + 2] == 'Z' || line[state + 2] == 'X';
  const std::string_view rest = line.substr(name + 1);
  return !gone && !rest.starts_with("spw-") && !rest.starts_with("iou-");
}

bool another_is_left() {
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(::opendir("/proc/self/task"), ::closedir);
  if (!threads) {
    return true;
  }
  const std::string own = std::to_string(::gettid());
  while (const dirent* const entry = ::readdir(threads.get())) {
    if (entry->d_name[0] == '.' || own == entry->d_name) {
      continue;
    }
    const int fd =
        ::open(fmt::format("/proc/self/task/{}/stat", entry->d_name).c_str(), O_RDONLY | O_CLOEXEC);
    std::array<char, 128> line{};
    const ssize_t bytes = fd < 0 ? 0 : ::read(fd, line.data(), line.size());
    if (fd >= 0) {
      ::close(fd);
    }
    if (bytes > 0 && is_the_programs({line.data(), static_cast<std::size_t>(bytes)})) {
      return true;
    }
  }
  return false;
}

// Twice, as threads come and go while they are listed. It ends the process as the C library does it
// for the last thread.
void* outlive_the_others(void* /*unused*/) {
  constexpr std::chrono::milliseconds kLookAgain{20};
  do {
    std::this_thread::sleep_for(kLookAgain);
  } while (another_is_left() || another_is_left());
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
