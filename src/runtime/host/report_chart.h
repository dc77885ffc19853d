// Charts over the time of a run as SVG inside a page, drawn here because a page has to follow the
// reader's light or dark background and gnuplot's drawings cannot. Layer: runtime.
#pragma once

#include <string>
#include <vector>

namespace spillway {

struct AxisTick {
  double value = 0;
  std::string label;
};

// Ticks from 0 up to the first one that is not below `highest`. Bytes step by powers of two, so
// that labels are round in binary units; seconds by what clocks show.
[[nodiscard]] std::vector<AxisTick> byte_ticks(double highest, const char* per = "");
[[nodiscard]] std::vector<AxisTick> second_ticks(double highest);

// One value a span. style: a class of the page's style sheet, which gives colour and dashes.
struct ChartSeries {
  std::string style;
  std::string label;
  std::vector<double> values;
  bool filled = false;
};

struct ChartLimit {
  std::string style;
  std::string label;
  double value = 0;
};

struct TimeChart {
  std::string label;                // what the chart shows, for those who cannot see it
  double end_s = 0;                 // spans are equally long, from 0 to here
  std::vector<AxisTick> ticks;      // of the upper half, from 0
  std::vector<AxisTick> ticks_low;  // of the lower half, likewise from 0; empty: there is none
  std::string high_note;            // what the halves are
  std::string low_note;
  std::vector<ChartSeries> series;      // above zero
  std::vector<ChartSeries> series_low;  // below, with positive values
  std::vector<ChartLimit> limits;
  std::vector<std::string> tooltips;  // one a span
};

// A legend and the drawing.
[[nodiscard]] std::string chart_html(const TimeChart& chart);

}  // namespace spillway
