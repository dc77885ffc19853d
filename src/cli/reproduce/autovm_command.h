// `spillway reproduce autovm`. Layer: cli.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "runtime/reproduce/autovm/autovm.h"

namespace spillway {

// Adds it to the command `reproduce`. Exit status as there. `reproduce` and `exit_code` must
// outlive parsing.
void add_autovm_command(CLI::App& reproduce, int& exit_code);

// What it prints for people: the grounds, the tables, how many numbers are where they must be.
[[nodiscard]] std::string autovm_report(const reproduce::AutoVmStudy& study);

}  // namespace spillway
