// What is said of a command line that cannot be understood. Layer: front.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace spillway {

// One line, with its newline: what is wrong, the nearest name where one is misspelt, and which
// --help says more.
[[nodiscard]] std::string misuse(const CLI::App& app, const CLI::Error& error);

// The command that was named and wants another behind it, which is not there; nullptr if that is
// not what is wrong.
[[nodiscard]] const CLI::App* without_subcommand(const CLI::App& app, const CLI::Error& error);

}  // namespace spillway
