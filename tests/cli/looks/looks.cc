// Loaded into `spillway` by a test: writes down how often that looks at the machine's memory and at
// the driver, a letter each time into the file that SPILLWAY_TEST_LOOKS names.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string_view>

namespace {

using Open = int (*)(const char*, int, ...);
using DlOpen = void* (*)(const char*, int);

Open real_open() {
  static const auto open = reinterpret_cast<Open>(::dlsym(RTLD_NEXT, "open"));
  return open;
}

void write_down(char letter) {
  const char* const path = std::getenv("SPILLWAY_TEST_LOOKS");
  // Of the programs that `spillway` starts none counts.
  if (path == nullptr || std::string_view(program_invocation_short_name) != "spillway") {
    return;
  }
  constexpr int kMode = 0600;
  const int file = real_open()(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode);
  if (file >= 0) {
    (void)!::write(file, &letter, 1);
    ::close(file);
  }
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list more;
  va_start(more, flags);
  const auto mode = va_arg(more, mode_t);  // of no meaning where nothing is created
  va_end(more);
  if (std::string_view(path) == "/proc/meminfo") {
    write_down('m');
  }
  return real_open()(path, flags, mode);
}

void* dlopen(const char* path, int flags) {
  static const auto next = reinterpret_cast<DlOpen>(::dlsym(RTLD_NEXT, "dlopen"));
  if (path != nullptr && std::string_view(path).find("libcuda.so") != std::string_view::npos) {
    write_down('d');
  }
  return next(path, flags);
}
}
