// `spillway trace import`. Layer: cli.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/error.h"

namespace spillway {

// Adds `import` to the command `trace`; `finish` receives what came of it.
void add_trace_import_command(CLI::App& trace, const std::function<void(const Status&)>& finish);

}  // namespace spillway
