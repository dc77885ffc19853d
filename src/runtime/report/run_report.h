// The report of a run: one HTML page that needs nothing beside it. Layer: runtime.
#pragma once

#include <string>

#include "base/error.h"
#include "runtime/record/run_records.h"

namespace spillway {

// Fails with kCannotRun where no record can be read.
[[nodiscard]] Result<std::string> run_report(const RunRecords& records);

}  // namespace spillway
