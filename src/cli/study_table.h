// What reproductions print and write of their tables. Layer: cli.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "base/error.h"
#include "runtime/reproduce/near_memory/near_memory.h"

namespace spillway {

// A heading; then numbers beside the paper's, one a line, or, where the paper has none, a line a
// subject; then an empty line.
[[nodiscard]] std::string study_table(const reproduce::NearTable& table);

// "12 of 14 numbers are where they must be", of those that the paper has a number for.
[[nodiscard]] std::string study_verdict(std::span<const reproduce::NearTable> tables);

// One JSON object for each number, a line each.
[[nodiscard]] std::string study_json(std::span<const reproduce::NearTable> tables);

// rows.jsonl and rows.csv, in a folder that exists. Errors: kIo.
[[nodiscard]] Status write_study_rows(std::span<const reproduce::NearTable> tables,
                                      const std::filesystem::path& folder);

}  // namespace spillway
