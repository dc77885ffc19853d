// Figures to SVG files. Layer: plot. gnuplot draws; it runs as a child process and is told
// everything in one script, so no text of a figure reaches a shell.
#pragma once

#include <filesystem>

#include "base/error.h"
#include "plot/figure.h"

namespace spillway::plot {

// Writes the figure to `path`, which is replaced only once the drawing is complete. Fails with
//  kInvalidInput  the figure contradicts itself (no panel, columns below 1, an x without a y);
//  kUnsupported   gnuplot is not installed;
//  kIo            gnuplot failed, or the file cannot be written.
[[nodiscard]] Status write_svg(const Figure& figure, const std::filesystem::path& path);

}  // namespace spillway::plot
