// What `spillway estimate` computes of a step: a row for each machine. Layer: cli.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/estimate/estimate_report.h"
#include "cli/estimate/estimate_source.h"
#include "machine/machine.h"
#include "policy/registry.h"

namespace spillway {

// Simulates what can be, with a progress bar. Traces are written into a folder that is gone
// afterwards. Fails with kIo, and as the simulator does.
[[nodiscard]] Result<EstimateReport> estimate_report(EstimateSource source,
                                                     const std::vector<Machine>& machines,
                                                     const PolicyInfo& policy);

}  // namespace spillway
