// Bytes and little-endian numbers out of a byte source. Layer: trace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "trace/format/byte_source.h"

namespace spillway {

// A failure sticks, and then all is 0 or "": status() says what happened first. The source must
// outlive this.
class PickleBytes {
 public:
  explicit PickleBytes(ByteSource& source) : source_(source) {}

  unsigned char byte() { return static_cast<unsigned char>(number(1)); }

  // Of at most 8 bytes.
  std::uint64_t number(std::size_t width) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < width && fill(); ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(chunk_.front())} << (8 * i);
      chunk_.remove_prefix(1);
      ++offset_;
    }
    return status_ ? value : 0;
  }

  std::string take(std::size_t length) {
    std::string text;
    while (text.size() < length && fill()) {
      const std::size_t part = std::min(chunk_.size(), length - text.size());
      text += chunk_.substr(0, part);
      chunk_.remove_prefix(part);
      offset_ += part;
    }
    return text;
  }

  // True at the end of the source, and after a failure.
  bool at_end() {
    if (chunk_.empty() && status_) {
      const Result<std::string_view> next = source_.next();
      if (!next) {
        status_ = tl::unexpected(next.error());
      } else {
        chunk_ = *next;
      }
    }
    return chunk_.empty();
  }

  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  bool fill() {
    if (at_end() && status_) {
      status_ = make_error(ErrorCode::kInvalidInput, "byte {}: the file is truncated", offset_);
    }
    return status_.has_value();
  }

  ByteSource& source_;
  std::string_view chunk_;
  std::uint64_t offset_ = 0;
  Status status_;
};

}  // namespace spillway
