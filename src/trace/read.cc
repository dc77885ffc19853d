// Which format is it? Layer: trace.
#include "trace/read.h"

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "trace/format/gzip_source.h"
#include "trace/format/kernel_trace_reader.h"
#include "trace/format/kernel_trace_writer.h"
#include "trace/format/native_format.h"
#include "trace/format/native_reader.h"
#include "trace/format/native_writer.h"
#include "trace/import.h"
#include "trace/validate.h"

namespace spillway {
namespace {

enum class Format : std::uint8_t { kNative, kGzip, kJson, kUnknown };

Format detect(std::string_view start) {
  if (start.substr(0, kNativeMagic.size()) == kNativeMagic.substr(0, start.size())) {
    return Format::kNative;
  }
  if (start.substr(0, 2) == std::string_view("\x1f\x8b").substr(0, start.size())) {
    return Format::kGzip;
  }
  const std::size_t text = start.find_first_not_of(" \t\r\n");
  return text != std::string_view::npos && start[text] == '{' ? Format::kJson : Format::kUnknown;
}

Status foreign(ImportFormat format) {
  return make_error(ErrorCode::kInvalidInput,
                    "byte 0: {}; 'spillway trace import FILE -o OUT.swt' makes a trace of it",
                    describe(format));
}

// A trace, or what only looks like one: JSON of other tools.
Status read_json(ByteSource& text, TraceVisitor& visitor) {
  const Result<std::string_view> start = text.next();
  if (!start) {
    return tl::unexpected(start.error());
  }
  if (const ImportFormat format = import_format(*start); format != ImportFormat::kNone) {
    return foreign(format);
  }
  RewoundSource whole(*start, text);
  return read_kernel_trace(whole, visitor);
}

Status visit(ByteSource& source, TraceVisitor& visitor, Format& format) {
  const Result<std::string_view> start = source.next();
  if (!start) {
    return tl::unexpected(start.error());
  }
  if (start->empty()) {
    return make_error(ErrorCode::kInvalidInput, "the file is empty");
  }
  format = detect(*start);
  RewoundSource whole(*start, source);
  switch (format) {
    case Format::kNative:
      return read_native_trace(whole, visitor);
    case Format::kGzip: {
      GzipSource text(whole);
      return read_json(text, visitor);
    }
    case Format::kJson:
      return read_json(whole, visitor);
    case Format::kUnknown:
      break;
  }
  if (const ImportFormat other = import_format(*start); other != ImportFormat::kNone) {
    return foreign(other);
  }
  return make_error(ErrorCode::kInvalidInput,
                    "byte 0: neither a native Spillway trace (.swt) nor kernel-trace/1 (.json, "
                    ".json.gz)");
}

Status visit_named(ByteSource& source, std::string_view name, TraceVisitor& visitor,
                   Format& format) {
  Status status = visit(source, visitor, format);
  if (!status) {
    return make_error(status.error().code, "{}: {}", name, status.error().message);
  }
  return status;
}

Status write_file(const std::string& bytes, const std::filesystem::path& path) {
  const auto fail = [&](std::string_view what) -> Status {
    return make_error(ErrorCode::kIo, "{}: {}: {}", path.string(), what,
                      std::generic_category().message(errno));
  };
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    return fail("cannot open for writing");
  }
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  const bool closed = std::fclose(file) == 0;  // writes what fwrite buffered
  if (!written || !closed) {
    return fail("cannot write");
  }
  return {};
}

Status write_encoded(const Result<std::string>& bytes, const std::filesystem::path& path) {
  if (!bytes) {
    return make_error(bytes.error().code, "{}: {}", path.string(), bytes.error().message);
  }
  return write_file(*bytes, path);
}

}  // namespace

Status visit_trace(ByteSource& source, std::string_view name, TraceVisitor& visitor) {
  Format format = Format::kUnknown;
  return visit_named(source, name, visitor, format);
}

Status visit_trace(const std::filesystem::path& path, TraceVisitor& visitor) {
  const auto source = FileSource::open(path);
  if (!source) {
    return tl::unexpected(source.error());
  }
  return visit_trace(**source, path.string(), visitor);
}

Result<Trace> read_trace(ByteSource& source, std::string_view name) {
  TraceBuilder builder;
  Format format = Format::kUnknown;
  if (const Status status = visit_named(source, name, builder, format); !status) {
    return tl::unexpected(status.error());
  }
  Trace trace = builder.take();
  if (format != Format::kNative) {
    mark_scratch(trace);
  }
  return trace;
}

Result<Trace> read_trace(const std::filesystem::path& path) {
  const auto source = FileSource::open(path);
  if (!source) {
    return tl::unexpected(source.error());
  }
  return read_trace(**source, path.string());
}

Status write_trace(const Trace& trace, const std::filesystem::path& path) {
  if (Status status = validate_trace(trace, path.string()); !status) {
    return status;
  }
  return write_encoded(encode_native_trace(trace), path);
}

Status write_kernel_trace(const Trace& trace, const std::filesystem::path& path) {
  if (Status status = validate_trace(trace, path.string()); !status) {
    return status;
  }
  const std::string json = encode_kernel_trace(trace);
  return path.extension() == ".gz" ? write_encoded(gzip(json), path) : write_file(json, path);
}

}  // namespace spillway
