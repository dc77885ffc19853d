// What is said of a command line that cannot be understood. Layer: cli.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace spillway {

// One line, with its newline: what is wrong, the nearest name where one is misspelt, and which
// --help says more.
[[nodiscard]] std::string misuse(const CLI::App& app, const CLI::Error& error);

// Whether nothing is wrong but that nothing was said: the program stands alone.
[[nodiscard]] bool says_nothing(const CLI::App& app, const CLI::Error& error);

}  // namespace spillway
