// See own_record.h.
#include "runtime/run/own_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "platform/common/say.h"
#include "runtime/run/run_records.h"

namespace spillway {
namespace {

std::string folder() {
  const char* const path = std::getenv("SPILLWAY_RECORD");
  return path == nullptr ? "" : path;
}

std::string own_command() {
  std::ifstream file("/proc/self/cmdline");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  for (char& c : text) {
    c = c == '\0' ? ' ' : c;
  }
  return text;
}

}  // namespace

std::string own_live_file() {
  const std::string records = folder();
  return records.empty() ? "" : live_file(records, ::getpid());
}

void write_own_record(RunRecorder& recorder) {
  const std::string records = folder();
  if (records.empty()) {
    return;
  }
  const std::string text = to_json(recorder.finish(own_command()));
  const std::string path = record_file(records, ::getpid());
  const int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    say(fmt::format("{}: cannot write the record: {}", path, std::strerror(errno)));
  }
  if (fd >= 0) {
    ::close(fd);
  }
}

}  // namespace spillway
