// What `spillway reproduce near-memory` prints for people. Layer: cli.
#pragma once

#include <string>

#include "runtime/reproduce/near_memory/near_memory.h"

namespace spillway {

// Numbers beside the paper's, one a line; tables of ours alone, a line a subject; the timeline.
[[nodiscard]] std::string near_memory_report(const reproduce::NearStudy& study);

}  // namespace spillway
