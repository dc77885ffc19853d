// What `spillway reproduce` prints for people. Layer: cli.
#pragma once

#include <span>
#include <string>

#include "runtime/reproduce/compare.h"

namespace spillway {

// A table for each figure: ours beside the published, the deviation, and a mark on what misses.
[[nodiscard]] std::string comparison_tables(std::span<const reproduce::ComparedRow> rows);

// How many rows reach what they must, by criterion and figure.
[[nodiscard]] std::string comparison_summary(std::span<const reproduce::ComparedRow> rows);

}  // namespace spillway
