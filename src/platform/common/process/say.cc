// See say.h.
#include "platform/common/process/say.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>

namespace spillway {
namespace {

// A program that was started without it may have a file of its own under that number.
const bool has_standard_error = ::fcntl(STDERR_FILENO, F_GETFD) >= 0;

}  // namespace

void say(std::string_view text) {
  if (!has_standard_error) {
    return;
  }
  // On the stack, unless it is very long: a thread may say something while the program's only other
  // one is in the middle of a fork, with the allocator's locks.
  fmt::memory_buffer line;
  fmt::format_to(std::back_inserter(line), "spillway: {}\n", text);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void end_run(std::string_view text) {
  say(text);
  std::_Exit(kOwnFailureStatus);
}

}  // namespace spillway
