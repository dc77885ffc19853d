// Estimates as a table, as JSON and as a page. See estimate_report.h.
#include "cli/estimate/estimate_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "cli/table.h"
#include "plot/svg.h"
#include "runtime/report/fits_in.h"
#include "runtime/report/report_html.h"

namespace spillway {
namespace {

using EstimateJson = nlohmann::ordered_json;

constexpr const char* kNone = "-";

std::vector<TextTable::Column> estimate_columns(const EstimateReport& report) {
  std::vector<TextTable::Column> columns{{"machine", Align::kLeft}};
  for (const char* heading : {"memory", "peak", "fits", "all in memory"}) {
    columns.push_back({heading});
  }
  if (report.checkpointed_peak_bytes) {
    columns.push_back({"checkpointed"});
    columns.push_back({"its step"});
  }
  for (const char* heading : {"Spillway", "ratio", "host memory"}) {
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
  if (!row.estimate) {
    return {std::move(cells), "times not known: the trace's are another device's"};
  }
  const Estimate& estimate = *row.estimate;
  cells.push_back(format_time(estimate.unlimited.iteration_ns));
  if (report.checkpointed_peak_bytes) {
    cells.push_back(format_bytes(*report.checkpointed_peak_bytes));
    cells.push_back(estimate.checkpointed && *estimate.checkpointed
                        ? format_time((*estimate.checkpointed)->iteration_ns)
                        : "cannot run");
  }
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

std::vector<TextTable::Column> batch_columns() {
  std::vector<TextTable::Column> columns{{"machine", Align::kLeft}};
  for (const char* heading : {"fits to", "checkpointed to", "Spillway pays to"}) {
    columns.push_back({heading});
  }
  return columns;
}

std::vector<std::string> batch_cells(const EstimateRow& row) {
  const auto batch = [](std::uint64_t size) {
    return size == 0 ? std::string("none") : fmt::format("{}", size);
  };
  return {row.machine.name, batch(row.largest_batch),
          row.checkpointed_largest_batch ? batch(*row.checkpointed_largest_batch) : kNone,
          !row.worth ? kNone : batch(row.worth->batch) + (row.worth->or_more ? " or more" : "")};
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
  if (report.says_batches) {
    json["largest_batch"] = row.largest_batch;
    json["checkpointed_largest_batch"] = nullptr;
    json["worth_largest_batch"] = nullptr;
    json["worth_or_more"] = nullptr;
    if (row.checkpointed_largest_batch) {
      json["checkpointed_largest_batch"] = *row.checkpointed_largest_batch;
    }
    if (row.worth) {
      json["worth_largest_batch"] = row.worth->batch;
      json["worth_or_more"] = row.worth->or_more;
    }
  }
  for (const char* key : {"in_memory_s", "step_s", "slowdown", "host_peak_bytes", "to_device_bytes",
                          "from_device_bytes", "limited_by", "checkpointed_peak_bytes",
                          "checkpointed_fits", "checkpointed_step_s"}) {
    json[key] = nullptr;
  }
  if (report.checkpointed_peak_bytes) {
    json["checkpointed_peak_bytes"] = *report.checkpointed_peak_bytes;
    json["checkpointed_fits"] =
        name_of(fits_in_device(*report.checkpointed_peak_bytes, row.machine));
  }
  if (row.estimate && row.estimate->checkpointed && *row.estimate->checkpointed) {
    json["checkpointed_step_s"] = to_seconds((*row.estimate->checkpointed)->iteration_ns);
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
  constexpr int kThirdColor = 2;
  constexpr double kMsPerS = 1e3;
  plot::BarSeries unlimited{"all in device memory", {}, kBlueColor};
  plot::BarSeries limited{"under Spillway", {}, kOrangeColor};
  plot::BarSeries with{"with checkpointing by hand", {}, kThirdColor};
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
    with.values.push_back(row.estimate && row.estimate->checkpointed && *row.estimate->checkpointed
                              ? ms((*row.estimate->checkpointed)->iteration_ns)
                              : plot::kMissing);
  }
  chart.series = {std::move(unlimited), std::move(limited)};
  if (report.checkpointed_peak_bytes) {
    chart.series.push_back(std::move(with));
  }
  plot::Figure figure;
  figure.panels.emplace_back(std::move(chart));
  figure.panel_width_px = 900;
  figure.transparent = true;
  return figure;
}

// A row is its cells, and what runs on over the columns behind them.
using HtmlRow = std::pair<std::vector<std::string>, std::string>;

std::string table_html(const std::vector<TextTable::Column>& columns,
                       const std::vector<HtmlRow>& rows) {
  std::string html = "<div class=\"scroll\"><table>\n<tr>";
  for (const TextTable::Column& column : columns) {
    html += fmt::format("<th>{}</th>", escape_html(column.heading));
  }
  html += "</tr>\n";
  for (const auto& [cells, rest] : rows) {
    html += "<tr>";
    for (const std::string& cell : cells) {
      html += fmt::format("<td>{}</td>", escape_html(cell));
    }
    if (!rest.empty()) {
      html += fmt::format("<td class=\"name\" colspan=\"{}\">{}</td>",
                          columns.size() - cells.size(), escape_html(rest));
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string tables_html(const EstimateReport& report) {
  std::vector<HtmlRow> rows;
  std::vector<HtmlRow> batches;
  for (const EstimateRow& row : report.rows) {
    rows.push_back(estimate_cells(report, row));
    batches.emplace_back(batch_cells(row), "");
  }
  std::string html = table_html(estimate_columns(report), rows);
  if (report.says_batches) {
    html += "<h3>The largest batch sizes</h3>\n" + table_html(batch_columns(), batches);
  }
  return html;
}

}  // namespace

std::string estimate_text(const EstimateReport& report) {
  TextTable table(estimate_columns(report));
  for (const EstimateRow& row : report.rows) {
    auto [cells, rest] = estimate_cells(report, row);
    table.add(std::move(cells), std::move(rest));
  }
  std::string text = estimate_heading(report) + table.text("  ");
  if (report.says_batches) {
    TextTable batches(batch_columns());
    for (const EstimateRow& row : report.rows) {
      batches.add(batch_cells(row));
    }
    text += "The largest batch sizes:\n" + batches.text("  ");
  }
  text += "How sure:\n";
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
  page += tables_html(report) + "<h3>How sure</h3>\n<ul>\n";
  for (const std::string& sentence : report.sure) {
    page += fmt::format("<li>{}</li>\n", escape_html(sentence));
  }
  return page + "</ul>\n" + page_end();
}

}  // namespace spillway
