// Charts as data: what is drawn, not how. Layer: plot.
// A figure is a grid of panels; a panel is a chart over numbers (XyChart) or over categories
// (BarChart). Text is UTF-8 and may hold any characters; control characters are drawn
// as spaces.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace spillway::plot {

// A value that does not exist: a gap in a line, "n/a" in place of a bar.
inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

struct Axis {
  std::string label;          // with the unit
  bool log = false;           // base 10; values that are not positive are left out
  std::optional<double> min;  // nullopt: from the data
  std::optional<double> max;
};

enum class Mark {
  kLine,
  kLinePoints,  // a line with a marker at each point
  kSteps,       // horizontal, then vertical: a value holds until the next x
  kPoints,
  kArea,  // filled down to the x axis
};

// Colours are indices into a colour-blind friendly palette of kColors (Okabe and Ito), taken modulo
// its size. nullopt: by position in the chart. Give the same thing the same colour in every panel.
inline constexpr int kColors = 8;

struct XySeries {
  std::string name;  // "" keeps it out of the legend
  std::vector<double> x;
  std::vector<double> y;  // as many as x
  Mark mark = Mark::kLine;
  std::optional<int> color;
  bool dashed = false;  // for references and limits
};

struct XyChart {
  std::string title;
  Axis x;
  Axis y;
  std::vector<XySeries> series;
  bool legend = true;
};

struct BarSeries {
  std::string name;
  std::vector<double> values;  // one for each category
  std::optional<int> color;
};

enum class BarLayout {
  kClustered,  // the series side by side in each category
  kStacked,    // the series on top of each other; negative values are not supported
};

// Neighbouring categories of the same non-empty group stand together above the group's name.
struct Category {
  std::string label;
  std::string group;
};

struct BarChart {
  std::string title;
  std::string x_label;
  Axis y;
  BarLayout layout = BarLayout::kClustered;
  std::vector<Category> categories;
  std::vector<BarSeries> series;
  std::optional<double> reference;  // a dashed horizontal line, such as 1 = ideal
  bool legend = true;
};

using Panel = std::variant<XyChart, BarChart>;

struct Figure {
  std::string title;
  std::vector<Panel> panels;  // row by row
  int columns = 1;
  int panel_width_px = 640;
  int panel_height_px = 400;
  bool transparent = false;  // for a page with a background of its own; else white
};

}  // namespace spillway::plot
