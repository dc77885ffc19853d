// What a run begins with, told before its program starts: on what, with which budgets and whose
// they are, and what could serve it and does not. Layer: cli.
#pragma once

#include <string_view>

#include "cli/run/decided_run.h"
#include "runtime/record/run_record.h"

namespace spillway {

// With what its line begins, behind "spillway: ".
inline constexpr std::string_view kStartLineBegin = "runs on ";

[[nodiscard]] RunStart run_start(const DecidedRun& run);

}  // namespace spillway
