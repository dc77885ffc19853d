// See say.h.
#include "platform/common/say.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace spillway {

void say(std::string_view text) {
  const std::string line = fmt::format("spillway: {}\n", text);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void end_run(std::string_view text) {
  say(text);
  std::_Exit(kOwnFailureStatus);
}

}  // namespace spillway
