// Writing kernel-trace/1. Layer: trace.
#pragma once

#include <string>

#include "base/error.h"
#include "trace/trace.h"

namespace spillway {

// The JSON text of a kernel-trace/1 file. `trace` must be valid (trace/validate.h). The format has
// sizes in multiples of 4096, so sizes are rounded up; scratch is not written, because it follows
// from the kernels.
[[nodiscard]] std::string encode_kernel_trace(const Trace& trace);

// `bytes` as one gzip member without a time stamp, so that equal input gives equal output.
[[nodiscard]] Result<std::string> gzip(const std::string& bytes);

}  // namespace spillway
