// What a run's numbers suggest to change, in sentences. Layer: runtime.
#pragma once

#include <string>
#include <vector>

#include "runtime/record/run_record.h"

namespace spillway {

// Plain text, most important first. Empty where the numbers justify nothing.
[[nodiscard]] std::vector<std::string> advice_for(const RunRecord& session);

}  // namespace spillway
