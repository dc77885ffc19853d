// Finds the records, and writes the page. See run_report.h.
#include "runtime/host/run_report.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <vector>

#include "runtime/host/report_html.h"
#include "runtime/host/report_record.h"
#include "runtime/host/report_session.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

struct Records {
  std::vector<SessionRecord> sessions;  // by process, as they were started
  std::vector<std::string> unreadable;  // names of files
};

Records read_records(const std::string& folder) {
  Records records;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".json") {
      continue;
    }
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (std::optional<SessionRecord> session = parse_session_record(text)) {
      records.sessions.push_back(std::move(*session));
    } else {
      records.unreadable.push_back(entry.path().filename().string());
    }
  }
  std::sort(records.sessions.begin(), records.sessions.end(),
            [](const auto& a, const auto& b) { return a.pid < b.pid; });
  std::sort(records.unreadable.begin(), records.unreadable.end());
  return records;
}

std::string contents(const std::vector<SessionRecord>& sessions) {
  std::string html = fmt::format(
      "<p>{} processes made large allocations, each within budgets of its own:</p>\n<ul>\n",
      sessions.size());
  for (const SessionRecord& session : sessions) {
    html +=
        fmt::format("<li><a href=\"#session-{0}\">Process {0}</a>, peak {1}, {2}</li>\n",
                    session.pid, format_bytes(session.peak_bytes), seconds_text(session.elapsed_s));
  }
  return html + "</ul>\n";
}

std::string page_of(const Records& records) {
  std::string page = page_start();
  if (records.sessions.size() > 1) {
    page += contents(records.sessions);
  }
  for (const std::string& name : records.unreadable) {
    page += fmt::format(
        "<p class=\"advice\">The record {} cannot be read, so its process is missing here: was it "
        "ended while it wrote?</p>\n",
        escape_html(name));
  }
  for (const SessionRecord& session : records.sessions) {
    page += session_html(session);
  }
  return page + page_end();
}

// In place and not by renaming a draft, so that a pipe or /dev/stdout will do as well.
Status write_file(const std::string& path, const std::string& text) {
  const auto failed = [&] {
    return make_error(ErrorCode::kIo,
                      "{}: cannot write the report: {}; name a file in a folder that you may write",
                      path, std::strerror(errno));
  };
  std::unique_ptr<std::FILE, decltype([](std::FILE* file) { std::fclose(file); })> file(
      std::fopen(path.c_str(), "we"));
  if (file == nullptr) {
    return failed();
  }
  if (std::fwrite(text.data(), 1, text.size(), file.get()) != text.size()) {
    return failed();
  }
  if (std::fclose(file.release()) != 0) {
    return failed();
  }
  return {};
}

}  // namespace

Status write_run_report(const std::string& folder, const std::string& file) {
  const Records records = read_records(folder);
  if (records.sessions.empty() && !records.unreadable.empty()) {
    return make_error(ErrorCode::kCannotRun,
                      "{}: no report, because the record {} cannot be read: was the program ended "
                      "while it wrote it, or is the disk of {} full?",
                      file, records.unreadable.front(), folder);
  }
  if (records.sessions.empty()) {
    return make_error(ErrorCode::kCannotRun,
                      "{}: no report, because the run left no record: either no allocation was as "
                      "large as --threshold, or the program is linked statically, or it ended "
                      "without its exit handlers (by a signal or _exit)",
                      file);
  }
  return write_file(file, page_of(records));
}

}  // namespace spillway
