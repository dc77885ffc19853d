// Estimates as a table, as JSON and as a page. See estimate_report.h.
#include "front/estimate_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "front/table.h"
#include "plot/svg.h"
#include "runtime/run/fits_in.h"
#include "runtime/run/report_html.h"

namespace spillway {
namespace {

using EstimateJson = nlohmann::ordered_json;

constexpr const char* kNone = "-";

std::vector<TextTable::Column> estimate_columns(const EstimateReport& report) {
  std::vector<TextTable::Column> columns{{"machine", Align::kLeft}, {"memory"}, {"peak"}, {"fits"}};
  if (report.says_largest_batch) {
    columns.push_back({"largest batch"});
  }
  for (const char* heading : {"all in memory", "Spillway", "ratio", "host memory"}) {
    columns.push_back({heading});
  }
  columns.push_back({"limited by", Align::kLeft});
  return columns;
}

// Why the policy cannot run, without its name.
std::string_view without_policy(const EstimateReport& report, std::string_view why) {
  const std::string name = report.policy + ": ";
  return why.starts_with(name) ? why.substr(name.size()) : why;
}

// The cells of a row, and what runs on over the columns behind them.
std::pair<std::vector<std::string>, std::string> estimate_cells(const EstimateReport& report,
                                                                const EstimateRow& row) {
  std::vector<std::string> cells{
      row.machine.name, format_bytes(row.machine.device.capacity_bytes),
      format_bytes(report.peak_bytes),
      std::string(name_of(fits_in_device(report.peak_bytes, row.machine)))};
  if (report.says_largest_batch) {
    cells.push_back(row.largest_batch == 0 ? "none" : fmt::format("{}", row.largest_batch));
  }
  if (!row.estimate) {
    return {std::move(cells), "times not known: the trace's are another device's"};
  }
  const Estimate& estimate = *row.estimate;
  cells.push_back(format_time(estimate.unlimited.iteration_ns));
  if (!estimate.limited) {
    return {
        std::move(cells),
        fmt::format("cannot run: {}", without_policy(report, estimate.limited.error().message))};
  }
  const Bytes host_bytes = estimate.limited->host_peak_bytes;
  cells.push_back(format_time(estimate.limited->iteration_ns));
  cells.push_back(fmt::format("{:.2f}", estimate.slowdown()));
  cells.push_back(host_bytes == 0 ? kNone : format_bytes(host_bytes));
  cells.emplace_back(name_of(estimate.limit));
  return {std::move(cells), ""};
}

std::string estimate_heading(const EstimateReport& report) {
  return fmt::format("{}: a step of {} kernels, times {}; at most {} alive at once\n",
                     report.model.empty() ? report.what : report.model, report.kernels,
                     report.times, format_bytes(report.peak_bytes));
}

EstimateJson row_json(const EstimateReport& report, const EstimateRow& row) {
  EstimateJson json{{"machine", row.machine.name},
                    {"device_memory_bytes", row.machine.device.capacity_bytes},
                    {"host_memory_bytes", row.machine.host.capacity_bytes},
                    {"what", report.what},
                    {"model", report.model},
                    {"policy", report.policy},
                    {"times", report.times},
                    {"peak_bytes", report.peak_bytes},
                    {"enough_bytes", fits_in_bytes(report.peak_bytes)},
                    {"fits", name_of(fits_in_device(report.peak_bytes, row.machine))}};
  if (report.says_largest_batch) {
    json["largest_batch"] = row.largest_batch;
  }
  for (const char* key : {"in_memory_s", "step_s", "slowdown", "host_peak_bytes", "to_device_bytes",
                          "from_device_bytes", "limited_by"}) {
    json[key] = nullptr;
  }
  if (row.estimate) {
    json["in_memory_s"] = to_seconds(row.estimate->unlimited.iteration_ns);
  }
  if (row.estimate && !row.estimate->limited) {
    json["cannot_run"] = without_policy(report, row.estimate->limited.error().message);
  } else if (row.estimate) {
    const SimulationResult& limited = *row.estimate->limited;
    const auto a_step = [&](Tier from, Tier to) {
      return limited.stats.moved(from, to) / limited.iterations;
    };
    json["step_s"] = to_seconds(limited.iteration_ns);
    json["slowdown"] = row.estimate->slowdown();
    json["host_peak_bytes"] = limited.host_peak_bytes;
    json["to_device_bytes"] =
        a_step(Tier::kHost, Tier::kDevice) + a_step(Tier::kStorage, Tier::kDevice);
    json["from_device_bytes"] =
        a_step(Tier::kDevice, Tier::kHost) + a_step(Tier::kDevice, Tier::kStorage);
    json["limited_by"] = name_of(row.estimate->limit);
  }
  json["machine_source"] = row.machine.source;
  return json;
}

plot::Figure estimate_figure(const EstimateReport& report) {
  constexpr int kBlueColor = 0;
  constexpr int kOrangeColor = 1;
  constexpr double kMsPerS = 1e3;
  plot::BarSeries unlimited{"all in device memory", {}, kBlueColor};
  plot::BarSeries limited{"under Spillway", {}, kOrangeColor};
  plot::BarChart chart;
  chart.title = "Time of a step";
  chart.y = {"ms", false, 0.0, {}};
  for (const EstimateRow& row : report.rows) {
    chart.categories.push_back({row.machine.name, ""});
    const auto ms = [](TimeNs time_ns) { return kMsPerS * to_seconds(time_ns); };
    unlimited.values.push_back(row.estimate ? ms(row.estimate->unlimited.iteration_ns)
                                            : plot::kMissing);
    limited.values.push_back(row.estimate && row.estimate->limited
                                 ? ms(row.estimate->limited->iteration_ns)
                                 : plot::kMissing);
  }
  chart.series = {std::move(unlimited), std::move(limited)};
  plot::Figure figure;
  figure.panels.emplace_back(std::move(chart));
  figure.panel_width_px = 900;
  figure.transparent = true;
  return figure;
}

std::string estimate_table_html(const EstimateReport& report) {
  std::string html = "<div class=\"scroll\"><table>\n<tr>";
  for (const TextTable::Column& column : estimate_columns(report)) {
    html += fmt::format("<th>{}</th>", escape_html(column.heading));
  }
  html += "</tr>\n";
  for (const EstimateRow& row : report.rows) {
    const auto [cells, rest] = estimate_cells(report, row);
    html += "<tr>";
    for (const std::string& cell : cells) {
      html += fmt::format("<td>{}</td>", escape_html(cell));
    }
    if (!rest.empty()) {
      html += fmt::format("<td class=\"name\" colspan=\"{}\">{}</td>",
                          estimate_columns(report).size() - cells.size(), escape_html(rest));
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

}  // namespace

std::string estimate_text(const EstimateReport& report) {
  TextTable table(estimate_columns(report));
  for (const EstimateRow& row : report.rows) {
    auto [cells, rest] = estimate_cells(report, row);
    table.add(std::move(cells), std::move(rest));
  }
  std::string text = estimate_heading(report) + table.text("  ") + "How sure:\n";
  for (const std::string& sentence : report.sure) {
    text += fmt::format("- {}\n", sentence);
  }
  return text;
}

std::string estimate_json(const EstimateReport& report) {
  std::string text;
  for (const EstimateRow& row : report.rows) {
    // Names come from files and may not be UTF-8.
    text += row_json(report, row).dump(-1, ' ', false, EstimateJson::error_handler_t::replace);
    text += '\n';
  }
  return text;
}

std::string estimate_html(const EstimateReport& report) {
  const Result<std::string> drawing =
      plot::draw_svg_element(estimate_figure(report), "chart", "Time of a step on each machine");
  std::string page = page_start("Spillway: estimate of a step");
  page += fmt::format("<code class=\"command\">{}</code>\n<p class=\"head\">{}</p>\n",
                      escape_html(report.what), escape_html(estimate_heading(report)));
  page += drawing ? *drawing
                  : fmt::format("<p class=\"advice\">No chart: {}</p>\n",
                                escape_html(drawing.error().message));
  page += estimate_table_html(report) + "<h3>How sure</h3>\n<ul>\n";
  for (const std::string& sentence : report.sure) {
    page += fmt::format("<li>{}</li>\n", escape_html(sentence));
  }
  return page + "</ul>\n" + page_end();
}

}  // namespace spillway
