// Files that options name for results: "-" is standard output. Layer: cli.
#pragma once

#include <string>

#include "base/error.h"

namespace spillway {

// Before there is anything to write: kInvalidInput where it could not be. Changes nothing.
[[nodiscard]] Status check_output(const std::string& path);
// The folder that --out names, with those above it; none where it names none. Errors: kIo.
[[nodiscard]] Status make_out_folder(const std::string& folder);
// In place and not by renaming a draft, so that a pipe or a device will do as well. kIo if it
// fails.
[[nodiscard]] Status write_output(const std::string& path, const std::string& text);

}  // namespace spillway
