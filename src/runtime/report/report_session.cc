// See report_session.h. The charts are in report_session_charts.cc.
#include "runtime/report/report_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "runtime/record/run_fields.h"
#include "runtime/report/report_advice.h"
#include "runtime/report/report_html.h"
#include "runtime/report/report_session_charts.h"

namespace spillway {
namespace {

std::string head(const RunRecord& session) {
  const Bytes device_bytes = session.budget(Tier::kDevice);
  const Bytes written_bytes =
      session.moved(Tier::kDevice, Tier::kStorage) + session.moved(Tier::kHost, Tier::kStorage);
  const double ratio = static_cast<double>(session.memory.peak_bytes) /
                       static_cast<double>(std::max(device_bytes, Bytes{1}));
  return fmt::format(
      "<p class=\"head\">The policy <b>{}</b> ran this program with <b>{}</b> of device memory. "
      "Its large allocations peaked at <b>{}</b>, {}. It ran for <b>{}</b>, of which <b>{}</b> "
      "({}) were stalled. {}</p>\n",
      escape_html(session.policy), format_bytes(device_bytes),
      format_bytes(session.memory.peak_bytes),
      ratio > 1 ? fmt::format("{:.2f} times as much", ratio) : "which fits",
      seconds_text(session.times.elapsed_s), seconds_text(session.times.stalled_s),
      percent_text(session.times.stalled_s, session.times.elapsed_s),
      written_bytes == 0
          ? "Nothing was written to storage."
          : fmt::format("<b>{}</b> were written to storage.", format_bytes(written_bytes)));
}

// What a wait was for, as a bar of which the longest of all waits fills the width.
std::string wait_bar(const RunWait& wait, double longest_s) {
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

// `what` is in the rows; there is one at least.
std::string waits_table(std::string_view what, const std::vector<RunWait>& waits) {
  std::string html = fmt::format(
      "<div class=\"scroll\"><table>\n<thead><tr><th class=\"name\" rowspan=\"2\">{}</th>"
      "<th rowspan=\"2\">times</th><th rowspan=\"2\">blocks</th><th rowspan=\"2\">each</th>"
      "<th rowspan=\"2\">waited</th><th rowspan=\"2\"></th>"
      "<th colspan=\"3\">of that, for</th></tr>\n"
      "<tr><th>host memory</th><th>storage</th><th>new memory</th></tr></thead>\n<tbody>\n",
      what);
  const auto longest = std::max_element(
      waits.begin(), waits.end(), [](const auto& a, const auto& b) { return a.wait_s < b.wait_s; });
  for (const RunWait& wait : waits) {
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

std::string launches_html(const RunRecord& session) {
  const std::string head = "<h3>Launches that waited longest</h3>\n";
  return head + (session.longest_waits.empty() ? "<p>No launch waited for memory.</p>\n"
                                               : waits_table("launch", session.longest_waits));
}

std::string modules_html(const RunRecord& session) {
  return session.waits_by_module.empty()
             ? ""
             : "<h3>Modules that waited longest</h3>\n"
               "<p class=\"legend\">What ran in the module itself, without those inside it. "
               "A * stands for the number of a layer.</p>\n" +
                   waits_table("module", session.waits_by_module);
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

std::string advice_html(const RunRecord& session) {
  std::string html;
  for (const std::string& sentence : advice_for(session)) {
    html += fmt::format("<p class=\"advice\">{}</p>\n", with_code(sentence));
  }
  return html;
}

std::string numbers(const RunRecord& session) {
  std::string html = "<h3>Numbers</h3>\n<div class=\"numbers\">\n";
  const auto add = [&](const std::string& value, const char* what) {
    html += fmt::format("<div><b>{}</b><span>{}</span></div>\n", value, what);
  };
  for_each_field<RunRecord>([&](const auto& field) {
    const auto& value = field.of(session);
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, MovedBytes>) {
      for (const Route& route : kRoutes) {
        add(format_bytes(session.moved(route.from, route.to)), route.caption);
      }
    } else if constexpr (std::is_same_v<Value, std::uint64_t>) {
      if (field.caption != nullptr) {
        const bool bytes = std::string_view(field.key).ends_with("_bytes");
        add(bytes ? format_bytes(value) : fmt::format("{}", value), field.caption);
      }
    }
  });
  return html + "</div>\n";
}

}  // namespace

std::string session_html(const RunRecord& session) {
  return fmt::format(
             "<section id=\"session-{0}\">\n<h2>Process {0}</h2>\n"
             "<code class=\"command\">{1}</code>\n",
             session.pid, escape_html(session.command)) +
         (session.start ? fmt::format("<p>It {}.</p>\n", escape_html(session.start->line)) : "") +
         head(session) + advice_html(session) + session_charts(session) + modules_html(session) +
         launches_html(session) + numbers(session) + "</section>\n";
}

}  // namespace spillway
