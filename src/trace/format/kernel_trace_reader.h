// Importing kernel-trace/1 (JSON, as it is or as gzip) in a stream. Layer: trace.
#pragma once

#include "base/error.h"
#include "trace/format/byte_source.h"
#include "trace/visitor.h"

namespace spillway {

// Reads JSON text from `text` to its end and delivers tensors and kernels to `visitor` as their
// closing braces are read; neither the text nor a document tree is held. Times become nanoseconds,
// rounded to nearest. "format" must come before "tensors" and "tensors" before "kernels".
// kInvalidInput with the JSON path, or the byte where the text is not JSON; no file name.
[[nodiscard]] Status read_kernel_trace(ByteSource& text, TraceVisitor& visitor);

}  // namespace spillway
