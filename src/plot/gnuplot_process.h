// gnuplot as a child process. Layer: plot.
#pragma once

#include <string>

#include "base/error.h"

namespace spillway::plot {

// Runs the program (looked up in PATH) on the script and returns what it printed. Start-up files of
// the user are not read. Blocks until it ends. kUnsupported where there is no such program, kIo
// where it fails, with its own first complaint.
[[nodiscard]] Result<std::string> run_gnuplot(const std::string& script,
                                              const std::string& program = "gnuplot");

}  // namespace spillway::plot
