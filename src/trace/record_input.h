// Varints and strings out of a byte source. Layer: trace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "trace/format/byte_source.h"

namespace spillway {

// A failure sticks: after it every call returns 0 or "", and status() says what happened first. So
// a record can be decoded field by field and asked once whether all went well.
class RecordInput {
 public:
  explicit RecordInput(ByteSource& source) : source_(source) {}

  // Unsigned LEB128 of at most 64 bits. `what` names the field in messages and must be a literal.
  std::uint64_t varint(std::string_view what);
  // A varint length of at most kMaxTextBytes, then that many bytes.
  std::string text(std::string_view what);
  // True at the end of the source, and after a failure.
  bool at_end();

  [[nodiscard]] bool ok() const { return status_.has_value(); }
  [[nodiscard]] const Status& status() const { return status_; }
  // True where it was the source that failed: then the message already has its place.
  [[nodiscard]] bool source_failed() const { return source_failed_; }
  // Bytes taken so far.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

 private:
  bool fill();  // true where chunk_ holds at least a byte
  void fail(std::string_view what, std::string_view why);

  ByteSource& source_;
  std::string_view chunk_;
  std::uint64_t offset_ = 0;
  Status status_;
  bool source_failed_ = false;
};

}  // namespace spillway
