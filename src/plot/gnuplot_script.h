// A figure as a gnuplot script that prints SVG. Pure text to text. Layer: plot.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "plot/figure.h"

namespace spillway::plot {

// kInvalidInput where the figure contradicts itself, naming the panel.
[[nodiscard]] Result<std::string> gnuplot_script(const Figure& figure);

// A gnuplot string constant in single quotes, within which gnuplot expands nothing. Control
// characters become spaces and single quotes typographic ones, so that nothing in the text can end
// it.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace spillway::plot
