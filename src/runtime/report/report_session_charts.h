// The charts of a session: tiers, migrations and stalls over time. Layer: runtime.
#pragma once

#include <string>

#include "runtime/record/run_record.h"

namespace spillway {

[[nodiscard]] std::string session_charts(const RunRecord& session);

}  // namespace spillway
