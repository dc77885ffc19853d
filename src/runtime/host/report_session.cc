// See report_session.h. The charts are in report_session_charts.cc.
#include "runtime/host/report_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/host/report_advice.h"
#include "runtime/host/report_html.h"
#include "runtime/host/report_session_charts.h"

namespace spillway {
namespace {

std::string head(const SessionRecord& session) {
  const Bytes device_bytes = session.budget_bytes[index_of(Tier::kDevice)];
  const Bytes written_bytes = session.written_to_storage();
  const double ratio = static_cast<double>(session.peak_bytes) /
                       static_cast<double>(std::max(device_bytes, Bytes{1}));
  return fmt::format(
      "<p class=\"head\">The policy <b>{}</b> ran this program with <b>{}</b> of device memory. "
      "Its large allocations peaked at <b>{}</b>, {}. It ran for <b>{}</b>, of which <b>{}</b> "
      "({}) were stalled. {}</p>\n",
      escape_html(session.policy), format_bytes(device_bytes), format_bytes(session.peak_bytes),
      ratio > 1 ? fmt::format("{:.2f} times as much", ratio) : "which fits",
      seconds_text(session.elapsed_s), seconds_text(session.stalled_s),
      percent_text(session.stalled_s, session.elapsed_s),
      written_bytes == 0
          ? "Nothing was written to storage."
          : fmt::format("<b>{}</b> were written to storage.", format_bytes(written_bytes)));
}

// What a wait was for, as a bar of which the longest of all waits fills the width.
std::string wait_bar(const SessionWait& wait, double longest_s) {
  constexpr double kWidth = 90;
  std::string bar = "<svg class=\"bar\" viewBox=\"0 0 90 12\" aria-hidden=\"true\">";
  double x = 0;
  const auto add = [&](const char* style, double seconds) {
    const double width = longest_s > 0 ? kWidth * seconds / longest_s : 0;
    if (width > 0) {
      bar += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"0\" width=\"{:.1f}\" height=\"12\"/>",
                         style, x, width);
    }
    x += width;
  };
  add("host", wait.host_s);
  add("storage", wait.storage_s);
  add("fresh", wait.fresh_s);
  return bar + "</svg>";
}

std::string waits_table(const SessionRecord& session) {
  std::string html = "<h3>Launches that waited longest</h3>\n";
  if (session.longest_waits.empty()) {
    return html + "<p>No launch waited for memory.</p>\n";
  }
  html +=
      "<div class=\"scroll\"><table>\n<thead><tr><th class=\"name\" rowspan=\"2\">launch</th>"
      "<th rowspan=\"2\">times</th><th rowspan=\"2\">blocks</th><th rowspan=\"2\">each</th>"
      "<th rowspan=\"2\">waited</th><th rowspan=\"2\"></th>"
      "<th colspan=\"3\">of that, for</th></tr>\n"
      "<tr><th>host memory</th><th>storage</th><th>new memory</th></tr></thead>\n<tbody>\n";
  const auto longest =
      std::max_element(session.longest_waits.begin(), session.longest_waits.end(),
                       [](const auto& a, const auto& b) { return a.wait_s < b.wait_s; });
  for (const SessionWait& wait : session.longest_waits) {
    const double each_s =
        wait.wait_s / static_cast<double>(std::max<std::uint64_t>(wait.launches, 1));
    html += fmt::format(
        "<tr><td class=\"name\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td><i class=\"host\"></i>{}</td><td><i class=\"storage\"></i>{}</td>"
        "<td><i class=\"fresh\"></i>{}</td></tr>\n",
        wait.name.empty() ? "(no name)" : escape_html(wait.name), wait.launches, wait.blocks,
        seconds_text(each_s), seconds_text(wait.wait_s), wait_bar(wait, longest->wait_s),
        seconds_text(wait.host_s), seconds_text(wait.storage_s), seconds_text(wait.fresh_s));
  }
  return html + "</tbody></table></div>\n";
}

// What stands between backquotes is what a person would type.
std::string with_code(const std::string& sentence) {
  std::string html;
  bool inside = false;
  for (const char c : escape_html(sentence)) {
    if (c == '`') {
      html += inside ? "</code>" : "<code>";
      inside = !inside;
    } else {
      html += c;
    }
  }
  return html;
}

std::string advice_html(const SessionRecord& session) {
  std::string html;
  for (const std::string& sentence : advice_for(session)) {
    html += fmt::format("<p class=\"advice\">{}</p>\n", with_code(sentence));
  }
  return html;
}

std::string numbers(const SessionRecord& session) {
  std::string html = "<h3>Numbers</h3>\n<div class=\"numbers\">\n";
  const auto add = [&](const std::string& value, const char* what) {
    html += fmt::format("<div><b>{}</b><span>{}</span></div>\n", value, what);
  };
  add(fmt::format("{}", session.page_faults), "faults on missing blocks");
  add(fmt::format("{}", session.write_faults), "faults on first writes");
  add(fmt::format("{}", session.launches), "launches");
  add(fmt::format("{}", session.prefetched_blocks), "blocks prefetched");
  add(fmt::format("{}", session.prefetches_used), "of them used");
  add(fmt::format("{}", session.prefetches_late), "needed while on their way");
  add(fmt::format("{}", session.prefetches_wasted), "left again unused");
  add(fmt::format("{}", session.evictions), "evictions");
  add(format_bytes(session.moved(Tier::kHost, Tier::kDevice)), "host to device memory");
  add(format_bytes(session.moved(Tier::kDevice, Tier::kHost)), "device to host memory");
  add(format_bytes(session.moved(Tier::kStorage, Tier::kDevice)), "storage to device memory");
  add(format_bytes(session.moved(Tier::kDevice, Tier::kStorage)), "device memory to storage");
  add(format_bytes(session.moved(Tier::kHost, Tier::kStorage)), "host memory to storage");
  add(format_bytes(session.saved_by_discard_bytes), "not moved, since it was dead");
  return html + "</div>\n";
}

}  // namespace

std::string session_html(const SessionRecord& session) {
  return fmt::format(
             "<section id=\"session-{0}\">\n<h2>Process {0}</h2>\n"
             "<code class=\"command\">{1}</code>\n",
             session.pid, escape_html(session.command)) +
         head(session) + advice_html(session) + session_charts(session) + waits_table(session) +
         numbers(session) + "</section>\n";
}

}  // namespace spillway
