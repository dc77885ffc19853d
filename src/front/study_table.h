// Tables of a reproduction for people. Layer: front.
#pragma once

#include <string>

#include "runtime/reproduce/near_memory.h"

namespace spillway {

// A heading; then numbers beside the paper's, one a line, or, where the paper has none, a line a
// subject; then an empty line.
[[nodiscard]] std::string study_table(const reproduce::NearTable& table);

}  // namespace spillway
