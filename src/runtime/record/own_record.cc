// See own_record.h.
#include "runtime/record/own_record.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "platform/common/process/say.h"
#include "runtime/record/run_records.h"
#include "runtime/report/trace_events.h"
#include "runtime/report/whole_file.h"

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

void write(const std::string& path, const std::string& text) {
  if (!write_whole_file(path, text)) {
    say(fmt::format("{}: cannot write the record: {}", path, std::strerror(errno)));
  }
}

}  // namespace

std::string own_live_file() {
  const std::string records = folder();
  return records.empty() ? "" : live_file(records, ::getpid());
}

void write_own_record(RunRecord record) {
  if (const std::string records = folder(); !records.empty()) {
    record.command = own_command();
    record.pid = static_cast<std::uint64_t>(::getpid());
    write(record_file(records, ::getpid()), to_json(record));
  }
}

void write_own_record(RunRecorder& recorder) {
  const std::string records = folder();
  if (records.empty()) {
    return;
  }
  const std::string command = own_command();
  write(record_file(records, ::getpid()), to_json(recorder.finish(command)));
  if (const EventLog* const events = recorder.events()) {
    write(events_file(records, ::getpid()), to_json(ProcessEvents{.pid = ::getpid(),
                                                                  .command = command,
                                                                  .began_ns = recorder.start_ns(),
                                                                  .events = events->events()}));
  }
}

}  // namespace spillway
