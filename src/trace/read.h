// Reading and writing trace files of either format. Layer: trace.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "trace/format/byte_source.h"
#include "trace/trace.h"
#include "trace/visitor.h"

namespace spillway {

// Finds out from the first bytes whether `source` is a native trace or kernel-trace/1, plain or
// gzip, and delivers it to `visitor` record by record. Errors are one line that begins with `name`
// and says the place and what is wrong: kInvalidInput for bad contents and for a file that does not
// exist, kIo for what the operating system refuses.
[[nodiscard]] Status visit_trace(ByteSource& source, std::string_view name, TraceVisitor& visitor);
[[nodiscard]] Status visit_trace(const std::filesystem::path& path, TraceVisitor& visitor);

// The same, kept as a valid Trace. From kernel-trace/1, scratch is marked (mark_scratch).
[[nodiscard]] Result<Trace> read_trace(ByteSource& source, std::string_view name);
[[nodiscard]] Result<Trace> read_trace(const std::filesystem::path& path);

// Write `trace` after validating it: kInvalidInput where it is not valid, kIo where the file cannot
// be written. write_trace writes the native format, write_kernel_trace kernel-trace/1, through gzip
// where the name ends in .gz. Two calls with equal traces write equal files.
[[nodiscard]] Status write_trace(const Trace& trace, const std::filesystem::path& path);
[[nodiscard]] Status write_kernel_trace(const Trace& trace, const std::filesystem::path& path);

}  // namespace spillway
