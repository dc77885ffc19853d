// `spillway record`: one iteration of a real program as a trace. Layer: cli. docs/traces.md.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway {

void add_record_command(CLI::App& app, int& exit_code);

}  // namespace spillway
