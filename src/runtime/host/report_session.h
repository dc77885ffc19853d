// A session's section of the report. Layer: runtime.
#pragma once

#include <string>

#include "runtime/host/report_record.h"

namespace spillway {

[[nodiscard]] std::string session_html(const SessionRecord& session);

}  // namespace spillway
