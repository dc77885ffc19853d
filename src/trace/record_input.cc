// Decoding with a failure that sticks. Layer: trace.
#include "trace/record_input.h"

#include <algorithm>

#include "trace/limits.h"

namespace spillway {

bool RecordInput::fill() {
  if (!chunk_.empty()) {
    return true;
  }
  if (!ok()) {
    return false;
  }
  const Result<std::string_view> chunk = source_.next();
  if (!chunk) {
    status_ = tl::unexpected(chunk.error());
    source_failed_ = true;
    return false;
  }
  chunk_ = *chunk;
  return !chunk_.empty();
}

void RecordInput::fail(std::string_view what, std::string_view why) {
  if (ok()) {
    status_ = make_error(ErrorCode::kInvalidInput, "{}: {}", what, why);
  }
  chunk_ = {};
}

bool RecordInput::at_end() { return !fill(); }

std::uint64_t RecordInput::varint(std::string_view what) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (!fill()) {
      fail(what, "the records end in the middle of it");
      return 0;
    }
    const auto byte = static_cast<unsigned char>(chunk_.front());
    chunk_.remove_prefix(1);
    ++offset_;
    const std::uint64_t bits = byte & 0x7FU;
    if (shift == 63 && bits > 1) {
      break;
    }
    value |= bits << shift;
    if ((byte & 0x80U) == 0) {
      return value;
    }
  }
  fail(what, "a number of more than 64 bits");
  return 0;
}

std::string RecordInput::text(std::string_view what) {
  std::uint64_t left = varint(what);
  if (left > kMaxTextBytes) {
    fail(what, fmt::format("{} bytes long; at most {} are allowed", left, kMaxTextBytes));
    return {};
  }
  std::string text;
  while (left > 0) {
    if (!fill()) {
      fail(what, "the records end in the middle of it");
      return {};
    }
    const std::size_t count = std::min<std::uint64_t>(left, chunk_.size());
    text.append(chunk_.substr(0, count));
    chunk_.remove_prefix(count);
    offset_ += count;
    left -= count;
  }
  return text;
}

}  // namespace spillway
