// What a run counts, for those who watch machines: the text format of Prometheus. Layer: runtime.
// docs/python.md tells people what the metrics mean.
#pragma once

#include <string>
#include <vector>

#include "runtime/record/run_records.h"

namespace spillway {

// A family of metrics each, with its HELP and TYPE, and in it a sample a process, told apart by the
// label `pid`. Of processes that have ended only what is counted, nothing that is as of now.
[[nodiscard]] std::string metrics_text(const std::vector<LiveRecord>& processes);

}  // namespace spillway
