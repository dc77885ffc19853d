// See whole_file.h.
#include "runtime/report/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace spillway {

bool write_whole_file(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) {
    return false;
  }
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t written = ::write(fd, left.data(), left.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      break;
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::close(fd) == 0 && left.empty();
}

}  // namespace spillway
