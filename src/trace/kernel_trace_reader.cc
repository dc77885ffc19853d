// A byte source under the JSON parser. Layer: trace.
#include "trace/kernel_trace_reader.h"

#include <functional>
#include <istream>
#include <nlohmann/json.hpp>
#include <streambuf>
#include <string>

#include "trace/kernel_trace_sax.h"

namespace spillway {
namespace {

// The parser holds a string or number until it ends; this is how much it may hold. Whitespace
// counts too.
constexpr std::uint64_t kMaxQuietBytes = 1024UL * 1024;

class SourceBuffer : public std::streambuf {
 public:
  explicit SourceBuffer(ByteSource& source) : source_(source) {}

  void note_event() { at_last_event_ = delivered_; }
  // The failure, if any, that ended the bytes early.
  [[nodiscard]] const Status& status() const { return status_; }

 protected:
  int_type underflow() override {
    if (!status_) {
      return traits_type::eof();
    }
    if (delivered_ - at_last_event_ > kMaxQuietBytes) {
      status_ = make_error(ErrorCode::kInvalidInput,
                           "byte {} of the JSON text: a string, number or gap of more than {} "
                           "bytes",
                           at_last_event_, kMaxQuietBytes);
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

 private:
  ByteSource& source_;
  Status status_;
  std::uint64_t delivered_ = 0;
  std::uint64_t at_last_event_ = 0;
};

}  // namespace

Status read_kernel_trace(ByteSource& text, TraceVisitor& visitor) {
  SourceBuffer buffer(text);
  std::istream stream(&buffer);
  const std::function<void()> progress = [&buffer] { buffer.note_event(); };
  KernelTraceSax sax(visitor, progress);
  const bool good = nlohmann::json::sax_parse(stream, &sax);
  if (!buffer.status()) {
    return buffer.status();  // the parser only saw an early end
  }
  if (!good) {
    return tl::unexpected(sax.error());
  }
  return {};
}

}  // namespace spillway
