// Writing the native format. Layer: trace.
#pragma once

#include <string>

#include "base/error.h"
#include "trace/trace.h"

namespace spillway {

// The bytes of a native trace file, of the lowest version that can say what `trace` says. `trace`
// must be valid (trace/validate.h). kIo where zstd runs out of memory.
[[nodiscard]] Result<std::string> encode_native_trace(const Trace& trace);

}  // namespace spillway
