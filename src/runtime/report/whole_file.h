// A file that is written at once. Layer: runtime.
#pragma once

#include <string>

namespace spillway {

// What was in it before is gone; only this user may read it. False if any of it could not be
// written; errno says why. Thread-safe.
[[nodiscard]] bool write_whole_file(const std::string& path, const std::string& text);

}  // namespace spillway
