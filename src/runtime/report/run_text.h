// Records in a few lines for a terminal. Layer: runtime.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/record/run_record.h"

namespace spillway {

// What a run was like; several lines, each with its newline. `whose`: where there are others
// beside it, "process 17: ".
[[nodiscard]] std::string summary_text(const RunRecord& record, std::string_view whose = "");

// "device [######----] 1.2 GiB  host [##--------] 300 MiB  storage ...  stalled 3.1 s"; without a
// trailing newline, cut to `columns`.
[[nodiscard]] std::string live_line(const RunRecord& live, std::size_t columns);

}  // namespace spillway
