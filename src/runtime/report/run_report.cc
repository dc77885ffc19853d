// See run_report.h.
#include "runtime/report/run_report.h"

#include <vector>

#include "runtime/report/report_html.h"
#include "runtime/report/report_session.h"

namespace spillway {
namespace {

std::string contents(const std::vector<RunRecord>& sessions) {
  std::string html = fmt::format(
      "<p>{} processes made large allocations, each within budgets of its own:</p>\n<ul>\n",
      sessions.size());
  for (const RunRecord& session : sessions) {
    html += fmt::format("<li><a href=\"#session-{0}\">Process {0}</a>, peak {1}, {2}</li>\n",
                        session.pid, format_bytes(session.memory.peak_bytes),
                        seconds_text(session.times.elapsed_s));
  }
  return html + "</ul>\n";
}

std::string page_of(const RunRecords& records) {
  std::string page = page_start("Spillway: report of a run");
  if (records.all.size() > 1) {
    page += contents(records.all);
  }
  for (const std::string& name : records.unreadable) {
    page += fmt::format(
        "<p class=\"advice\">The record {} cannot be read, so its process is missing here: was it "
        "ended while it wrote?</p>\n",
        escape_html(name));
  }
  for (const RunRecord& session : records.all) {
    page += session_html(session);
  }
  return page + page_end();
}

}  // namespace

Result<std::string> run_report(const RunRecords& records) {
  if (records.all.empty() && !records.unreadable.empty()) {
    return make_error(ErrorCode::kCannotRun,
                      "no report, because the record {} cannot be read: was the program ended "
                      "while it wrote it, or is the disk of the temporary folder full?",
                      records.unreadable.front());
  }
  if (records.all.empty()) {
    return make_error(ErrorCode::kCannotRun,
                      "no report, because the run left no record: either no allocation was as "
                      "large as --threshold, or the program is linked statically, or it ended "
                      "at once");
  }
  return page_of(records);
}

}  // namespace spillway
