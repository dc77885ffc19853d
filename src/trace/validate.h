// Is this Trace well formed? For traces that were built in memory; readers check as they read.
// Layer: trace.
#pragma once

#include <string_view>

#include "base/error.h"
#include "trace/trace.h"

namespace spillway {

// kInvalidInput with one line that starts with `where` (a file or a name) and says the place, such
// as kernels[12].reads[3], of the first violation of what trace/checker.h and trace/limits.h
// demand. Time and memory are linear in the trace.
[[nodiscard]] Status validate_trace(const Trace& trace, std::string_view where);

}  // namespace spillway
