// A valid trace out of what an importer found out. Layer: trace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "trace/trace.h"

namespace spillway {

// A kernel that an importer puts together; lists may name a tensor twice.
struct ImportedKernel {
  std::string name;
  TimeNs duration_ns = 0;  // 0 becomes 1: every kernel of a trace takes time
  std::vector<TensorId> reads;
  std::vector<TensorId> writes;
  bool synchronizes = false;
};

// Enforces trace/limits.h while the trace grows, and makes lifetimes agree (trace/checker.h): a
// tensor that was read before its first write is updated in place by it. kInvalidInput, without a
// place, where a limit is exceeded.
class TraceAssembler {
 public:
  // `bytes` is at least 1.
  [[nodiscard]] Result<TensorId> tensor(Bytes bytes, bool persistent);
  // The tensor turned out to be at least that large.
  [[nodiscard]] Status grow(TensorId id, Bytes bytes);
  [[nodiscard]] Bytes bytes_of(TensorId id) const { return trace_.tensors[id].bytes; }
  // No kernel has used it, and it was not there before: it has no contents.
  [[nodiscard]] bool is_new(TensorId id) const {
    return !trace_.tensors[id].persistent && seen_[id] == Seen::kNever;
  }
  [[nodiscard]] Status kernel(ImportedKernel kernel);
  // Leaves out tensors that no kernel uses, except persistent ones; marks scratch. No further use.
  [[nodiscard]] Result<Trace> finish(std::string_view device);

 private:
  enum class Seen : std::uint8_t { kNever, kRead, kWritten };

  Trace trace_;
  std::vector<Seen> seen_;  // by tensor
  std::uint64_t accesses_ = 0;
  std::uint64_t text_bytes_ = 0;
};

// `text` as a name that a trace may have: control characters and what is not ASCII become '?', and
// it is cut to 512 bytes.
[[nodiscard]] std::string plain_name(std::string_view text);

}  // namespace spillway
