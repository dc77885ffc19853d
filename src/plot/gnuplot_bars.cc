// Panels over categories: clustered and stacked bars, drawn as boxes at positions worked out here.
#include <fmt/format.h>

#include <algorithm>

#include "plot/gnuplot_panel.h"
#include "plot/gnuplot_script.h"

namespace spillway::plot {
namespace {

constexpr double kClusterWidth = 0.84;  // of a category's slot, which is 1 wide
constexpr double kStackWidth = 0.72;
constexpr double kGroupGap = 0.7;     // between groups of categories
constexpr double kCharacterPx = 6.1;  // mean width and line height of a category label
constexpr double kLinePx = 15;

// Where each category's slot is centred.
std::vector<double> centres(const BarChart& chart) {
  std::vector<double> out;
  double x = 0.5;
  for (std::size_t i = 0; i < chart.categories.size(); ++i) {
    if (i > 0) {
      const bool same_group = chart.categories[i].group == chart.categories[i - 1].group;
      x += same_group ? 1 : 1 + kGroupGap;
    }
    out.push_back(x);
  }
  return out;
}

// The width of the x axis, from 0.
double span(const std::vector<double>& centres) {
  return centres.empty() ? 1 : centres.back() + 0.5;
}

bool has_groups(const BarChart& chart) {
  return std::any_of(chart.categories.begin(), chart.categories.end(),
                     [](const Category& category) { return !category.group.empty(); });
}

// What stands below the axis, from the top: category labels, group names, the axis' label.
struct Footer {
  int angle = 0;           // of the category labels, in degrees
  double label_lines = 1;  // height of the category labels
};

Footer footer(const BarChart& chart, double slot_px) {
  std::size_t longest = 0;
  for (const Category& category : chart.categories) {
    longest = std::max(longest, category.label.size());
  }
  const double label_px = static_cast<double>(longest) * kCharacterPx;
  if (longest == 0) {
    return {0, 0};
  }
  if (label_px + kCharacterPx <= slot_px) {
    return {0, 1};
  }
  if (slot_px < 2 * kLinePx) {
    return {90, label_px / kLinePx + 0.3};
  }
  return {35, label_px * 0.57 / kLinePx + 0.8};
}

std::string footer_settings(const BarChart& chart, const std::vector<double>& x, int width_px) {
  const Footer below = footer(chart, (width_px - 100) / span(x));
  std::string out = fmt::format(
      "set xtics noenhanced scale 0 font ',12' {} (",
      below.angle == 0 ? std::string("norotate") : fmt::format("rotate by {} right", below.angle));
  for (std::size_t i = 0; i < x.size(); ++i) {
    out += fmt::format("{}{} {:.6g}", i == 0 ? "" : ", ", quoted(chart.categories[i].label), x[i]);
  }
  out += ")\n";

  double lines = below.label_lines + 0.9;
  if (has_groups(chart)) {
    std::size_t first = 0;
    for (std::size_t i = 1; i <= x.size(); ++i) {
      if (i == x.size() || chart.categories[i].group != chart.categories[first].group) {
        out += fmt::format(
            "set label {} at first {:.6g}, graph 0 offset character 0,{:.3g} center noenhanced\n",
            quoted(chart.categories[first].group), (x[first] + x[i - 1]) / 2, -lines - 0.1);
        first = i;
      }
    }
    lines += 1.2;
  }
  if (!chart.x_label.empty()) {
    out += fmt::format(
        "set label {} at graph 0.5, graph 0 offset character 0,{:.3g} center noenhanced\n",
        quoted(chart.x_label), -lines - 0.3);
    lines += 1.4;
  }
  return out + fmt::format("set bmargin {:.3g}\n", lines + 0.2);
}

// Boxes of the series, a line each: x y x_low x_high y_low y_high; and remarks where a bar is
// missing or taller than the axis.
struct Bars {
  std::vector<std::string> boxes;  // by series
  std::string remarks;
};

double smallest_positive(const BarChart& chart) {
  double smallest = std::numeric_limits<double>::infinity();
  for (const BarSeries& series : chart.series) {
    for (const double value : series.values) {
      if (value > 0) {
        smallest = std::min(smallest, value);
      }
    }
  }
  return std::isfinite(smallest) ? smallest : 1;
}

std::string remark(std::string_view text, double x, std::string_view y, std::string_view justify) {
  return fmt::format(
      "set label {} at first {:.6g}, {} rotate by 90 {} noenhanced font ',10' front textcolor rgb "
      "{}\n",
      quoted(text), x, y, justify, justify == "left" ? kGrey : "'#000000'");
}

Bars bars(const BarChart& chart, const std::vector<double>& x) {
  Bars out;
  out.boxes.resize(chart.series.size());
  const bool stacked = chart.layout == BarLayout::kStacked;
  const double foot = chart.y.log ? chart.y.min.value_or(smallest_positive(chart) / 2) : 0;
  const auto series_count = static_cast<double>(chart.series.size());
  const double width = stacked ? kStackWidth : kClusterWidth / series_count;
  for (std::size_t category = 0; category < x.size(); ++category) {
    double low = foot;
    bool any = false;
    for (std::size_t i = 0; i < chart.series.size(); ++i) {
      const double value = chart.series[i].values[category];
      const double shift = stacked ? 0 : (static_cast<double>(i) - (series_count - 1) / 2) * width;
      const double centre = x[category] + shift;
      if (!drawable(value, chart.y)) {
        out.remarks += stacked ? "" : remark("n/a", centre, "graph 0.015", "left");
        continue;
      }
      any = true;
      const double high = stacked && low != foot ? low + value : value;
      out.boxes[i] += fmt::format("{:.9g} {:.9g} {:.9g} {:.9g} {:.9g} {:.9g}\n", centre, high,
                                  centre - width / 2, centre + width / 2, low, high);
      if (!stacked && chart.y.max && high > *chart.y.max) {
        out.remarks += remark(fmt::format("{:.3g}", high), centre, "graph 0.985", "right");
      }
      low = stacked ? high : foot;
    }
    if (stacked && !any) {
      out.remarks += remark("n/a", x[category], "graph 0.015", "left");
    }
    if (stacked && chart.y.max && low > *chart.y.max) {
      out.remarks += remark(fmt::format("{:.3g}", low), x[category], "graph 0.985", "right");
    }
  }
  return out;
}

// Bars are compared by their length, so the axis starts at 0 unless a bar hangs below it.
Axis bar_axis(const BarChart& chart) {
  Axis axis = chart.y;
  const auto has_negative = [](const BarSeries& series) {
    return std::any_of(series.values.begin(), series.values.end(),
                       [](double value) { return value < 0; });
  };
  if (!axis.log && !axis.min &&
      std::none_of(chart.series.begin(), chart.series.end(), has_negative)) {
    axis.min = 0;
  }
  return axis;
}

}  // namespace

PanelScript bar_panel(const BarChart& chart, PanelPlace place) {
  const std::vector<double> x = centres(chart);
  const Bars drawn = bars(chart, x);

  PanelScript script;
  std::string plots;
  std::vector<std::string> legend;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    if (drawn.boxes[i].empty()) {
      continue;
    }
    const std::string& name = chart.series[i].name;
    const std::string block = fmt::format("$panel{}series{}", place.index, i);
    script.data += fmt::format("{} << END\n{}END\n", block, drawn.boxes[i]);
    plots += fmt::format(
        "{}{} using 1:2:3:4:5:6 {} with boxxyerror fillstyle solid 1 noborder linecolor rgb {}",
        plots.empty() ? "plot " : ", ", block, name.empty() ? "notitle" : "title " + quoted(name),
        quoted_color(chart.series[i].color, i));
    if (chart.legend && !name.empty()) {
      legend.push_back(name);
    }
  }

  script.commands = panel_settings(chart.title, legend, place.width_px);
  script.commands += axis_settings('y', bar_axis(chart));
  script.commands += fmt::format("set xrange [0:{:.6g}]\n", span(x));
  script.commands += footer_settings(chart, x, place.width_px) + drawn.remarks;
  if (chart.reference && drawable(*chart.reference, chart.y)) {
    script.commands += fmt::format(
        "set arrow from graph 0, first {0:.9g} to graph 1, first {0:.9g} nohead front dashtype 2 "
        "linecolor rgb {1}\n",
        *chart.reference, kGrey);
  }
  script.commands +=
      plots.empty() ? "unset logscale\nset yrange [0:1]\nplot NaN notitle\n" : plots + "\n";
  return script;
}

}  // namespace spillway::plot
