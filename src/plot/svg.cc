// Figures to SVG. See svg.h.
#include "plot/svg.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <system_error>

#include "plot/gnuplot_process.h"
#include "plot/gnuplot_script.h"

namespace spillway::plot {
namespace {

// Writes beside the target and renames, so that a reader never sees half a drawing.
Status replace_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::path beside = path;
  beside += fmt::format(".{}.part", getpid());
  {
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (!out) {
      std::error_code ignored;
      std::filesystem::remove(beside, ignored);
      return make_error(ErrorCode::kIo, "{}: cannot be written; is the folder there and writable?",
                        path.string());
    }
  }
  std::error_code error;
  std::filesystem::rename(beside, path, error);
  if (error) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    return make_error(ErrorCode::kIo, "{}: cannot be written: {}", path.string(), error.message());
  }
  return {};
}

}  // namespace

Result<std::string> draw_svg(const Figure& figure) {
  return gnuplot_script(figure).and_then(
      [](const std::string& script) { return run_gnuplot(script); });
}

// What stands before the canvas is for a file: a declaration, namespaces, a title that would appear
// wherever somebody points.
Result<std::string> draw_svg_element(const Figure& figure, std::string_view css_class,
                                     std::string_view label) {
  return draw_svg(figure).and_then([&](const std::string& svg) -> Result<std::string> {
    const std::size_t view = svg.find("viewBox=\"");
    const std::size_t canvas = svg.find("<g id=\"gnuplot_canvas\">");
    if (view == std::string::npos || canvas == std::string::npos) {
      return make_error(ErrorCode::kIo, "gnuplot's drawing is not as that of version 5.4");
    }
    const std::size_t view_end = svg.find('"', svg.find('"', view) + 1) + 1;
    return fmt::format("<svg class=\"{}\" {} role=\"img\" aria-label=\"{}\">\n{}", css_class,
                       svg.substr(view, view_end - view), label, svg.substr(canvas));
  });
}

Status write_svg(const Figure& figure, const std::filesystem::path& path) {
  return draw_svg(figure).and_then([&](const std::string& svg) { return replace_file(path, svg); });
}

}  // namespace spillway::plot
