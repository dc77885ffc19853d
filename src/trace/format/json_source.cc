// Chunks of a source for the parser, and what it says of them. Layer: trace.
#include "trace/format/json_source.h"

namespace spillway {

JsonSource::int_type JsonSource::underflow() {
  if (!status_) {
    return traits_type::eof();
  }
  if (delivered_ - at_last_event_ > kMaxBypassBytes) {
    status_ = make_error(ErrorCode::kInvalidInput,
                         "byte {} of the JSON text: a string, number or gap of more than {} bytes",
                         at_last_event_, kMaxBypassBytes);
    return traits_type::eof();
  }
  const Result<std::string_view> chunk = source_.next();
  if (!chunk) {
    status_ = tl::unexpected(chunk.error());
    return traits_type::eof();
  }
  if (chunk->empty()) {
    return traits_type::eof();
  }
  delivered_ += chunk->size();
  char* start = const_cast<char*>(chunk->data());  // a get area is never written through
  setg(start, start, start + chunk->size());
  return traits_type::to_int_type(*start);
}

std::string one_line(std::string_view text) {
  constexpr std::size_t kLongest = 240;
  std::string line(text.substr(0, kLongest));
  for (char& c : line) {
    c = c < ' ' || c > '~' ? '?' : c;
  }
  return line;
}

Error json_error(std::size_t position, const char* what) {
  std::string_view text = what;  // "[json.exception.parse_error.101] parse error at ..."
  const std::size_t bracket = text.find("] ");
  text.remove_prefix(bracket == std::string_view::npos ? 0 : bracket + 2);
  return {ErrorCode::kInvalidInput,
          fmt::format("byte {} of the JSON text: {}", position, one_line(text))};
}

}  // namespace spillway
