// Figures to SVG. Layer: plot. gnuplot draws; it runs as a child process and is told
// everything in one script, so no text of a figure reaches a shell.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.h"
#include "plot/figure.h"

namespace spillway::plot {

// The drawing as text. Fails as write_svg does.
[[nodiscard]] Result<std::string> draw_svg(const Figure& figure);

// The same as an element of a page, which says by the style sheet of `css_class` what gnuplot's
// colours are there. label: what it shows, for those who cannot see it, as an attribute may hold
// it.
[[nodiscard]] Result<std::string> draw_svg_element(const Figure& figure, std::string_view css_class,
                                                   std::string_view label);

// Writes the figure to `path`, which is replaced only once the drawing is complete. Fails with
//  kInvalidInput  the figure contradicts itself (no panel, columns below 1, an x without a y);
//  kUnsupported   gnuplot is not installed;
//  kIo            gnuplot failed, or the file cannot be written.
[[nodiscard]] Status write_svg(const Figure& figure, const std::filesystem::path& path);

}  // namespace spillway::plot
