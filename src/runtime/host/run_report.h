// The report of a run: one HTML page that needs nothing beside it. Layer: runtime.
#pragma once

#include <string>

#include "base/error.h"

namespace spillway {

// From the records in the folder (run_record.h). Fails with kIo if the file cannot be written, and
// with kCannotRun where there is no record.
Status write_run_report(const std::string& folder, const std::string& file);

}  // namespace spillway
