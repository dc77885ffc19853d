// Reading the native format in a stream. Layer: trace.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "trace/format/byte_source.h"
#include "trace/visitor.h"

namespace spillway {

// Reads a whole native trace from `file`, magic included, and delivers it record by record: header,
// tensors with their recorded lifetimes, kernels. Holds a few chunks, the distinct kernel names and
// some 32 bytes a tensor. kInvalidInput with the place (a record and its byte in the decompressed
// records, or a byte of the file); no file name.
[[nodiscard]] Status read_native_trace(ByteSource& file, TraceVisitor& visitor);

// The same from the decompressed records alone, as read_native_trace does behind the compression.
// `version` is one that native_format.h lists.
[[nodiscard]] Status read_native_records(ByteSource& records, std::uint32_t version,
                                         TraceVisitor& visitor);

}  // namespace spillway
