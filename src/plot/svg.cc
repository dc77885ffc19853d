// Figures to SVG files.
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

Status write_svg(const Figure& figure, const std::filesystem::path& path) {
  const auto script = gnuplot_script(figure);
  if (!script) {
    return tl::unexpected<Error>(script.error());
  }
  const auto svg = run_gnuplot(*script);
  if (!svg) {
    return tl::unexpected<Error>(svg.error());
  }
  return replace_file(path, *svg);
}

}  // namespace spillway::plot
