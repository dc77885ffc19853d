// Which Spillway this is. Layer: cli. cmake/Version.cmake writes the source that defines the
// first two, so that no other file is compiled for a commit.
#pragma once

#include <string>
#include <string_view>

namespace spillway {

[[nodiscard]] std::string_view version();  // "0.1.0"
// As `git describe` has it, "-dirty" where files had been changed; "unknown" where what was built
// is no clone.
[[nodiscard]] std::string_view commit();

// What --version prints: that, and the driver library that runs would use.
[[nodiscard]] std::string version_report();

}  // namespace spillway
