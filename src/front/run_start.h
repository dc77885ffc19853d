// What a run begins with, told before its program starts: on what, with which budgets and whose
// they are, and what could serve it and does not. Layer: front.
#pragma once

#include <string_view>

#include "base/error.h"
#include "front/run_environment.h"
#include "runtime/run/run_record.h"

namespace spillway {

// With what its line begins, behind "spillway: ".
inline constexpr std::string_view kStartLineBegin = "runs on ";

// Behind run_environment, with the same options, which has put them into this process's environment
// and found them right. Fails where the driver no longer answers.
[[nodiscard]] Result<RunStart> run_start(const RunOptions& options, bool on_gpu);

}  // namespace spillway
