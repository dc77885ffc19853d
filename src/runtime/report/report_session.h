// A session's section of the report. Layer: runtime.
#pragma once

#include <string>

#include "runtime/record/run_record.h"

namespace spillway {

[[nodiscard]] std::string session_html(const RunRecord& session);

}  // namespace spillway
