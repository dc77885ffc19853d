// What the parts of the script writer share: one panel's share of the script, and text, colours and
// axes as gnuplot has them. Layer: plot, internal.
#pragma once

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plot/figure.h"

namespace spillway::plot {

struct PanelScript {
  std::string data;      // data blocks, to stand before any drawing
  std::string commands;  // settings and one plot command
};

struct PanelPlace {
  std::size_t index = 0;  // names the panel's data blocks
  int width_px = 0;
};

// The panel must have passed the checks of gnuplot_script().
[[nodiscard]] PanelScript xy_panel(const XyChart& chart, PanelPlace place);
[[nodiscard]] PanelScript bar_panel(const BarChart& chart, PanelPlace place);

// '#rrggbb', quoted; `position` is used where no colour was chosen.
[[nodiscard]] std::string quoted_color(std::optional<int> color, std::size_t position);

// A colour for what is neither data nor text: grids, references, remarks.
inline constexpr std::string_view kGrey = "'#808080'";

// Label, scale and range of 'x' or 'y'.
[[nodiscard]] std::string axis_settings(char name, const Axis& axis);

// Title, legend and the settings that every panel begins with. No names, no legend.
[[nodiscard]] std::string panel_settings(const std::string& title,
                                         const std::vector<std::string>& legend_names,
                                         int width_px);

// Whether an axis can show the value.
[[nodiscard]] inline bool drawable(double value, const Axis& axis) {
  return std::isfinite(value) && (!axis.log || value > 0);
}

}  // namespace spillway::plot
