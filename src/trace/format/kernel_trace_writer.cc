// A trace as JSON. Layer: trace.
#include "trace/format/kernel_trace_writer.h"

#include <zlib.h>

#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/units.h"

namespace spillway {
namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// Exact: a double would do too, but not look like what was measured.
std::string in_ms(TimeNs time_ns) {
  return fmt::format("{}.{:06}", time_ns / kNsPerMs, time_ns % kNsPerMs);
}

}  // namespace

std::string encode_kernel_trace(const Trace& trace) {
  std::string json = fmt::format(
      R"({{"format":"kernel-trace/1","model":{},"batch_size":{},"gpu":{},"dtype":{},"tensors":[)",
      quoted(trace.model), trace.batch_size, quoted(trace.device), quoted(trace.dtype));
  const auto out = std::back_inserter(json);
  const char* comma = "";
  for (const Tensor& tensor : trace.tensors) {
    fmt::format_to(out, R"({}{{"bytes":{},"persistent":{}}})", comma,
                   round_up(tensor.bytes, kPageBytes), tensor.persistent);
    comma = ",";
  }
  json += R"(],"kernels":[)";
  comma = "";
  for (const Kernel& kernel : trace.kernels) {
    fmt::format_to(
        out,
        R"({}{{"name":{},"ms":{},"input_fault_ms":{},"all_fault_ms":{},"reads":[{}],"writes":[{}]{}}})",
        comma, quoted(kernel.name), in_ms(kernel.duration_ns), in_ms(kernel.input_fault_ns),
        in_ms(kernel.all_fault_ns), fmt::join(kernel.reads, ","), fmt::join(kernel.writes, ","),
        kernel.synchronizes ? R"(,"sync":true)" : "");
    comma = ",";
  }
  json += "]}\n";
  return json;
}

Result<std::string> gzip(const std::string& bytes) {
  z_stream stream{};
  constexpr int kGzip = 16;  // added to the window bits; zlib.h, deflateInit2
  if (deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + kGzip, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    return make_error(ErrorCode::kIo, "zlib has no memory");
  }
  std::string out;
  std::array<char, 65536> buffer{};
  std::size_t taken = 0;
  int code = Z_OK;
  while (code == Z_OK) {
    const std::size_t count = std::min<std::size_t>(bytes.size() - taken, buffer.size());
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + taken));
    stream.avail_in = static_cast<uInt>(count);
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    code = deflate(&stream, taken + count == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    taken += count - stream.avail_in;
    out.append(buffer.data(), buffer.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  if (code != Z_STREAM_END) {
    return make_error(ErrorCode::kIo, "zlib cannot compress: {}", zError(code));
  }
  return out;
}

}  // namespace spillway
