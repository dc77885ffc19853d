// A byte source under the JSON parser, which reads from streams. Layer: trace.
#pragma once

#include <cstdint>
#include <streambuf>
#include <string>
#include <string_view>

#include "base/error.h"
#include "trace/format/byte_source.h"

namespace spillway {

// The parser holds a string or number until it ends, so a gap between two events is bounded; white
// space counts too. The source must outlive this.
class JsonSource : public std::streambuf {
 public:
  static constexpr std::uint64_t kMaxBypassBytes = 1024UL * 1024;

  explicit JsonSource(ByteSource& source) : source_(source) {}

  // The parser has reported something.
  void note_event() { at_last_event_ = delivered_; }
  // The failure, if any, that ended the bytes early: then the parser only saw an early end.
  [[nodiscard]] const Status& status() const { return status_; }

 protected:
  int_type underflow() override;

 private:
  ByteSource& source_;
  Status status_;
  std::uint64_t delivered_ = 0;
  std::uint64_t at_last_event_ = 0;
};

// The first of `text` in printable ASCII, for a message: it quotes the file.
[[nodiscard]] std::string one_line(std::string_view text);

// "byte 12 of the JSON text: what is wrong", in printable ASCII on one line, of what the parser
// says.
[[nodiscard]] Error json_error(std::size_t position, const char* what);

}  // namespace spillway
