// How --help looks: examples first, options in groups, lines that fit a terminal. Layer: cli.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace spillway {

// For the program, before commands are added: each takes it over. A command's description begins
// with the line that the list of commands shows; the group "" hides one.
[[nodiscard]] std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace spillway
