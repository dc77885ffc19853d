// Panels over numbers: lines, steps, points, areas.
#include <fmt/format.h>

#include <algorithm>

#include "plot/gnuplot_panel.h"
#include "plot/gnuplot_script.h"

namespace spillway::plot {
namespace {

// Markers that stay apart in print: disc, square, triangle, diamond, triangle down, pentagon, ring.
int marker(std::size_t position) {
  constexpr int kMarkers[] = {7, 5, 9, 13, 11, 15, 6};
  return kMarkers[position % std::size(kMarkers)];
}

std::string style(const XySeries& series, std::size_t position) {
  const std::string color = quoted_color(series.color, position);
  const char* dash = series.dashed ? " dashtype 2" : "";
  switch (series.mark) {
    case Mark::kLine:
      return fmt::format("with lines linewidth 2 linecolor rgb {}{}", color, dash);
    case Mark::kLinePoints:
      return fmt::format(
          "with linespoints linewidth 2 pointtype {} pointsize 0.8 linecolor rgb {}{}",
          marker(position), color, dash);
    case Mark::kSteps:
      return fmt::format("with steps linewidth 2 linecolor rgb {}{}", color, dash);
    case Mark::kPoints:
      return fmt::format("with points pointtype {} pointsize 0.35 linecolor rgb {}",
                         marker(position), color);
    case Mark::kArea:
      return fmt::format("with filledcurves x1 fillstyle solid 0.75 noborder linecolor rgb {}",
                         color);
  }
  return "";
}

// A point that an axis cannot show becomes an empty line: a gap.
std::string points(const XyChart& chart, const XySeries& series) {
  std::string out;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const bool shown = drawable(series.x[i], chart.x) && drawable(series.y[i], chart.y);
    out += shown ? fmt::format("{:.9g} {:.9g}\n", series.x[i], series.y[i]) : "\n";
  }
  return out;
}

}  // namespace

PanelScript xy_panel(const XyChart& chart, PanelPlace place) {
  PanelScript script;
  std::string plots;
  std::vector<std::string> legend;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const XySeries& series = chart.series[i];
    const std::string data = points(chart, series);
    if (data.find_first_not_of('\n') == std::string::npos) {
      continue;  // gnuplot refuses a plot without points
    }
    const std::string block = fmt::format("$panel{}series{}", place.index, i);
    script.data += fmt::format("{} << END\n{}END\n", block, data);
    plots += fmt::format("{}{} using 1:2 {} {}", plots.empty() ? "plot " : ", ", block,
                         series.name.empty() ? "notitle" : "title " + quoted(series.name),
                         style(series, i));
    if (chart.legend && !series.name.empty()) {
      legend.push_back(series.name);
    }
  }

  script.commands = panel_settings(chart.title, legend, place.width_px);
  script.commands += axis_settings('x', chart.x) + axis_settings('y', chart.y);
  if (plots.empty()) {
    script.commands += fmt::format(
        "unset logscale\nset format '%g'\nset xrange [0:1]\nset yrange [0:1]\n"
        "set label 'no data' at graph 0.5,0.5 center textcolor rgb {}\nplot NaN notitle\n",
        kGrey);
    return script;
  }
  script.commands += plots + "\n";
  return script;
}

}  // namespace spillway::plot
