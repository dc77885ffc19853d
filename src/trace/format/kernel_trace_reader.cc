// The JSON parser over a byte source. Layer: trace.
#include "trace/format/kernel_trace_reader.h"

#include <functional>
#include <istream>
#include <nlohmann/json.hpp>

#include "trace/format/json_source.h"
#include "trace/format/kernel_trace_sax.h"

namespace spillway {

Status read_kernel_trace(ByteSource& text, TraceVisitor& visitor) {
  JsonSource buffer(text);
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
