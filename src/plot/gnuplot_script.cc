// A figure as a gnuplot script: checks, the page, and what panels have in common.
#include "plot/gnuplot_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "plot/gnuplot_panel.h"

namespace spillway::plot {
namespace {

constexpr int kTitleHeightPx = 36;

Status check_axis(const Axis& axis, std::string_view where) {
  for (const auto& limit : {axis.min, axis.max}) {
    if (limit && !drawable(*limit, axis)) {
      return make_error(ErrorCode::kInvalidInput, "{}: axis limit {} cannot be drawn{}", where,
                        *limit, axis.log ? " on a logarithmic axis" : "");
    }
  }
  if (axis.min && axis.max && *axis.min >= *axis.max) {
    return make_error(ErrorCode::kInvalidInput, "{}: axis from {} to {} is empty", where, *axis.min,
                      *axis.max);
  }
  return {};
}

Status check(const XyChart& chart, std::string_view where) {
  for (const XySeries& series : chart.series) {
    if (series.x.size() != series.y.size()) {
      return make_error(ErrorCode::kInvalidInput, "{}: series '{}' has {} x for {} y", where,
                        series.name, series.x.size(), series.y.size());
    }
  }
  return check_axis(chart.x, where).and_then([&] { return check_axis(chart.y, where); });
}

Status check(const BarChart& chart, std::string_view where) {
  for (const BarSeries& series : chart.series) {
    if (series.values.size() != chart.categories.size()) {
      return make_error(ErrorCode::kInvalidInput, "{}: series '{}' has {} values for {} categories",
                        where, series.name, series.values.size(), chart.categories.size());
    }
    for (const double value : series.values) {
      if (chart.layout == BarLayout::kStacked && value < 0) {
        return make_error(ErrorCode::kInvalidInput, "{}: series '{}' stacks a negative value",
                          where, series.name);
      }
    }
  }
  return check_axis(chart.y, where);
}

Status check(const Figure& figure) {
  if (figure.panels.empty()) {
    return make_error(ErrorCode::kInvalidInput, "figure '{}' has no panels", figure.title);
  }
  if (figure.columns < 1 || figure.panel_width_px < 100 || figure.panel_height_px < 100) {
    return make_error(ErrorCode::kInvalidInput,
                      "figure '{}': needs at least 1 column and panels of 100 by 100 pixels",
                      figure.title);
  }
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    const std::string where = fmt::format("figure '{}', panel {}", figure.title, i + 1);
    Status status =
        std::visit([&](const auto& chart) { return check(chart, where); }, figure.panels[i]);
    if (!status) {
      return status;
    }
  }
  return {};
}

std::size_t rows_of_legend(const std::vector<std::string>& names, int width_px) {
  constexpr double kSamplePx = 50;
  constexpr double kLegendCharacterPx = 7.4;
  std::size_t longest = 0;
  for (const std::string& name : names) {
    longest = std::max(longest, name.size());
  }
  const double entry_px = kSamplePx + kLegendCharacterPx * static_cast<double>(longest);
  const auto columns = static_cast<std::size_t>(std::max(1.0, (width_px - 100) / entry_px));
  return (names.size() + columns - 1) / columns;
}

PanelScript panel_script(const Panel& panel, PanelPlace place) {
  return std::visit(
      [&](const auto& chart) {
        if constexpr (std::is_same_v<std::decay_t<decltype(chart)>, XyChart>) {
          return xy_panel(chart, place);
        } else {
          return bar_panel(chart, place);
        }
      },
      panel);
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "\u2019";  // gnuplot 5.4 misreads a doubled quote that begins a constant
    } else {
      out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return out + "'";
}

std::string quoted_color(std::optional<int> color, std::size_t position) {
  // Okabe and Ito, Color Universal Design (2008), in an order that keeps neighbours apart in
  // lightness; the grey stands in for their black, which text has.
  static constexpr std::array<std::string_view, kColors> kPalette = {
      "'#0072b2'", "'#e69f00'", "'#009e73'", "'#d55e00'",
      "'#56b4e9'", "'#cc79a7'", "'#f0e442'", "'#666666'"};
  const int index = color.value_or(static_cast<int>(position % kColors)) % kColors;
  return std::string(kPalette[static_cast<std::size_t>(index < 0 ? index + kColors : index)]);
}

std::string axis_settings(char name, const Axis& axis) {
  std::string out = fmt::format("set {}label {} noenhanced\n", name, quoted(axis.label));
  if (axis.log) {
    out += fmt::format("set logscale {0} 10\nset format {0} '10^{{%T}}'\n", name);
  }
  const auto limit = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : std::string("*");
  };
  return out + fmt::format("set {}range [{}:{}]\n", name, limit(axis.min), limit(axis.max));
}

std::string panel_settings(const std::string& title, const std::vector<std::string>& legend_names,
                           int width_px) {
  std::string out =
      "reset\n"
      "set border 3 linecolor rgb '#404040'\n"
      "set tics nomirror out scale 0.6\n"
      "set grid ytics linetype 1 linecolor rgb '#e0e0e0' linewidth 1\n";
  // The legend stands between the chart and its title; gnuplot would put it above the title, where
  // it seems to belong to the panel above.
  const std::size_t legend_rows = rows_of_legend(legend_names, width_px);
  const double legend_lines = 1.15 * static_cast<double>(legend_rows);
  if (legend_rows == 0) {
    out += "unset key\n";
  } else {
    const std::size_t columns = (legend_names.size() + legend_rows - 1) / legend_rows;
    out += fmt::format(
        "set key at graph 0.5, graph 1.035 center bottom horizontal Left reverse noenhanced "
        "samplen "
        "1.5 maxcols {}\n",
        columns);
  }
  return out + fmt::format(
                   "set title {} noenhanced font ',15' offset character 0,{:.3g}\n"
                   "set tmargin {:.3g}\n",
                   quoted(title), legend_lines, legend_lines + 2.7);
}

Result<std::string> gnuplot_script(const Figure& figure) {
  if (const Status status = check(figure); !status) {
    return tl::unexpected<Error>(status.error());
  }
  const int panels = static_cast<int>(figure.panels.size());
  const int columns = panels < figure.columns ? panels : figure.columns;
  const int rows = (panels + columns - 1) / columns;
  const int title_px = figure.title.empty() ? 0 : kTitleHeightPx;

  std::string data;
  std::string commands;
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    PanelScript panel = panel_script(figure.panels[i], {i, figure.panel_width_px});
    data += panel.data;
    commands += panel.commands;
  }
  std::string script = "set encoding utf8\n" + data;
  script += fmt::format("set terminal svg enhanced size {},{} font 'Arial,13'{}\n",
                        columns * figure.panel_width_px, rows * figure.panel_height_px + title_px,
                        figure.transparent ? "" : " background '#ffffff'");
  script += fmt::format("set multiplot layout {},{}", rows, columns);
  if (!figure.title.empty()) {
    script += fmt::format(" title {} noenhanced font ',17'", quoted(figure.title));
  }
  return script + "\n" + commands + "unset multiplot\n";
}

}  // namespace spillway::plot
